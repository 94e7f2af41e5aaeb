"""A broker and its sessions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import TracebackType
from typing import Any

from typing_extensions import Self, Unpack

from .._transport import REQUEST_TIMEOUT
from .._wire import commands, openings
from .._wire.broker import Broker
from .._wire.events import EventStream
from .._wire.openings import SESSION_NAMES
from .._wire.plane import Plane
from ..types import AttachMode, Command, ExecOptions, ExecResult, SessionEvent, SessionOptions, StartOptions
from .commands import Commands
from .driver import Driver
from .files import Files
from .processes import Processes
from .run import Run


class Session:
    """A thread's sandbox, and the right to use it. It holds no connection of its own; threads may share it."""

    def __init__(self, driver: Driver, plane: Plane) -> None:
        self._driver, self._plane = driver, plane
        self.files = Files(driver, plane)
        self.commands = Commands(driver, plane)
        self.processes = Processes(driver, plane)

    @property
    def id(self) -> str:
        """The session id."""
        return self._plane.session_id

    @property
    def sandbox_id(self) -> str:
        """The sandbox id."""
        return str(self._plane.negotiated["sandbox"]["id"])

    @property
    def info(self) -> dict[str, Any]:
        """The answer to the negotiation without its tokens: `binding`, `policy`, `warnings` and so on."""
        return {name: value for name, value in self._plane.negotiated.items() if name not in ("token", "credentials")}

    @property
    def mode(self) -> str:
        """`direct`, or `relay`: as negotiated, or since the agent could not be reached."""
        return "relay" if self._plane.endpoint.relay else "direct"

    @property
    def expires_at(self) -> datetime:
        """When the present token ends. It is renewed before that, on use."""
        return self._plane.token.expires_at

    def exec(self, command: Command, *, request_timeout: float | None = None, **options: Unpack[ExecOptions]) -> ExecResult:
        """Runs a command to its end. Repeated over dropped connections without running twice."""
        return self._driver.within(request_timeout).run(commands.run(self._plane, command, options))

    def start(self, command: Command, *, request_timeout: float | None = None, **options: Unpack[StartOptions]) -> Run:
        """Starts a command and streams it."""
        return Run(self._driver.within(request_timeout), openings.started(self._plane, command, options)).open()

    def attach(
        self,
        exec_id: str,
        *,
        stdout_offset: int | str = 0,
        stderr_offset: int | str = 0,
        mode: AttachMode = "takeover",
        request_timeout: float | None = None,
    ) -> Run:
        """Joins a command that runs, or ended less than 10 minutes ago. An offset is a byte, or `end`: what comes from now on."""
        stream = openings.attached(self._plane, exec_id, stdout_offset, stderr_offset, mode)
        return Run(self._driver.within(request_timeout), stream).open()

    def shell(
        self,
        shell_id: str | None = None,
        *,
        cols: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        offset: int = 0,
        mode: AttachMode = "mirror",
        request_timeout: float | None = None,
    ) -> Run:
        """Opens a terminal, or joins the one with this id."""
        stream = openings.shell(self._plane, shell_id, cols, rows, cwd, offset, mode)
        return Run(self._driver.within(request_timeout), stream).open()

    def events(self, *, last_event_id: int | None = None, request_timeout: float | None = None) -> Iterator[SessionEvent]:
        """Follows what happens to the session, to its end: from the oldest event that is kept, or after `last_event_id`.

        A connection that drops is made again, and no event is lost or repeated.
        """
        driver = self._driver.within(request_timeout)
        stream = EventStream(self._plane.broker, self.id, last_event_id)
        try:
            while not stream.over:
                event = driver.run(stream.read())
                if event is not None:
                    yield event
        finally:
            driver.run(stream.leave())

    def refresh(self, *, request_timeout: float | None = None) -> None:
        """Renews the token now. Not needed for normal use."""
        self._driver.within(request_timeout).run(self._plane.token.renew(self._plane.token.value))

    def heartbeat(self, *, request_timeout: float | None = None) -> dict[str, Any]:
        """Says that the session is still needed although nothing happens in it."""
        return self._driver.within(request_timeout).run(self._plane.broker.heartbeat(self.id))

    def release(self, *, keep_workspace: bool = False, request_timeout: float | None = None) -> None:
        """Ends the session for everyone on the thread. One that is gone is fine."""
        self._driver.within(request_timeout).run(self._plane.broker.release(self.id, keep_workspace))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


class Client:
    """A broker, and the API key it is asked with.

    Args:
        url: The broker's URL.
        api_key: An API key, or a token of a configured identity provider.
        reconnect_window: Seconds that the client tries to come back to what does not answer.
        request_timeout: Seconds that a request may be without a byte of an answer. What may be repeated is sent once more; then it raises
            `SilenceError`. Calls take one of their own.
    """

    def __init__(self, url: str, *, api_key: str, reconnect_window: float = 30, request_timeout: float = REQUEST_TIMEOUT) -> None:
        self._broker = Broker(url, api_key, reconnect_window)
        self._driver = Driver(request_timeout)

    def session(self, thread_id: str, *, request_timeout: float | None = None, **options: Unpack[SessionOptions]) -> Session:
        """The session of a thread: the one that lives, or by default a new one."""
        commands.refuse_unknown("session", options, SESSION_NAMES)
        negotiated = self._driver.within(request_timeout).run(self._broker.negotiate(thread_id, options))
        return Session(self._driver, Plane(self._broker, negotiated, options))

    def sessions(self, *, state: str | None = None, request_timeout: float | None = None) -> list[dict[str, Any]]:
        """The bindings that the caller may use, newest first."""
        return self._driver.within(request_timeout).run(self._broker.sessions(state))

    def release(self, session_id: str, *, keep_workspace: bool = False, request_timeout: float | None = None) -> None:
        """Ends a session by its id. One that is gone is fine."""
        self._driver.within(request_timeout).run(self._broker.release(session_id, keep_workspace))

    def close(self) -> None:
        """Closes the connections. Sessions live on."""
        self._driver.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
