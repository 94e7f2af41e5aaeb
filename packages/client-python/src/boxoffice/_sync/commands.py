"""The commands of a sandbox, by their ids."""

from __future__ import annotations

from typing import Literal

from .._wire import records
from .._wire.plane import Plane
from ..types import CommandInfo, CommandOutput, Stream
from .driver import Driver


class Commands:
    """The commands and shells of a sandbox, by their ids: those that run, and those that ended less than 10 minutes ago.

    `Session.attach` joins one.
    """

    def __init__(self, driver: Driver, plane: Plane) -> None:
        self._driver, self._plane = driver, plane

    def list(self, *, state: Literal["running", "exited", "all"] | None = None, request_timeout: float | None = None) -> list[CommandInfo]:
        """All of them, or those in a state."""
        return self._driver.within(request_timeout).run(records.listed(self._plane, state))

    def get(self, exec_id: str, *, request_timeout: float | None = None) -> CommandInfo:
        """One of them, with its result once it has ended. Raises `NotFoundError` for an id that is not known, or no longer."""
        return self._driver.within(request_timeout).run(records.known(self._plane, exec_id))

    def output(
        self,
        exec_id: str,
        *,
        stream: Stream = "stdout",
        offset: int = 0,
        limit: int | None = None,
        wait_seconds: float = 0,
        request_timeout: float | None = None,
    ) -> CommandOutput:
        """What it has written from a byte on, without joining it; `limit` bytes at most (1 MiB).

        Where there is none yet, `wait_seconds` (up to 30) is how long to wait for the first one.
        """
        return self._driver.within(request_timeout).run(records.output(self._plane, exec_id, stream, offset, limit, wait_seconds))

    def signal(self, exec_id: str, name: str, *, request_timeout: float | None = None) -> bool:
        """Sends a signal, as `TERM`, to its process group. False: it had ended before."""
        return self._driver.within(request_timeout).run(records.send_signal(self._plane, exec_id, name))

    def kill(self, exec_id: str, *, grace_seconds: float = 1, request_timeout: float | None = None) -> bool:
        """Ends it with TERM, and with KILL what is left after `grace_seconds` (at most 60). Does not wait. False: it had ended before."""
        return self._driver.within(request_timeout).run(records.killed(self._plane, exec_id, grace_seconds))
