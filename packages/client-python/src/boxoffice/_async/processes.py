"""The managed processes of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._wire import processes
from .._wire.plane import Plane
from ..types import ProcessInfo, Restart
from .driver import Driver


class AsyncProcesses:
    """Long-lived programs of a sandbox, by name: servers, watchers. They keep the session from idling, and live without a client."""

    def __init__(self, driver: Driver, plane: Plane) -> None:
        self._driver, self._plane = driver, plane

    async def start(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        process_id: str = "default",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        replace: bool = False,
        restart: Restart = "never",
        max_restarts: int | None = None,
        request_timeout: float | None = None,
    ) -> ProcessInfo:
        """Starts a program, without a shell. One that could not be started is `exited`, with the reason in `stderr_preview`.

        Args:
            replace: Ends the running one of this id first. Without it, that is a `ConflictError`.
            restart: When it is started again after an end that nobody asked for.
        """
        starting = processes.start(self._plane, process_id, command, args, cwd, env, replace, restart, max_restarts)
        return await self._driver.within(request_timeout).run(starting)

    async def list(self, *, request_timeout: float | None = None) -> list[ProcessInfo]:
        """All that run, and those that ended less than 300 s ago."""
        return await self._driver.within(request_timeout).run(processes.listed(self._plane))

    async def get(self, process_id: str = "default", *, request_timeout: float | None = None) -> ProcessInfo:
        """One of them. Raises `NotFoundError` for an id that is not known, or no longer."""
        return await self._driver.within(request_timeout).run(processes.known(self._plane, process_id))

    async def stop(self, process_id: str = "default", *, request_timeout: float | None = None) -> None:
        """Ends it: its stdin is closed, then TERM, after 5 s KILL. Returns when it has ended; one that is not there is fine."""
        await self._driver.within(request_timeout).run(processes.stop(self._plane, process_id))
