"""A process over a WebSocket: its output by offset, its input, and coming back after a drop (contract 3.3)."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from ..errors import BoxofficeError, ConnectionFailedError, OutputGapError, SilenceError, error_of
from ..types import Exit, Output, Stream
from .commands import result_of
from .effects import Dial, Dropped, HangUp, Op, Receive, Send, Sleep
from .plane import Endpoint, Plane, wants_token
from .records import send_signal
from .retry import backoff, is_passing, origin, refusal_of

SUBPROTOCOL = "boxoffice.v1.binary"
ACK_BYTES = 128 * 1024
UNCONFIRMED_BYTES = 256 * 1024
READY_WITHIN = 15.0
SLICE = 1.0
PROBE_AFTER, SILENT_FOR = 3.0, 10.0
RESTART = 1001
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}
_CLOSED = {4401: "UNAUTHENTICATED", 4404: "EXEC_NOT_FOUND", 4408: "TIMEOUT", 4409: "TAKEN_OVER", 4410: "SESSION_RELEASED"}
_CLOSED |= {4400: "INVALID_REQUEST", 4403: "FORBIDDEN", 4423: "SANDBOX_STARTING", 4429: "RATE_LIMITED", 4503: "BACKEND_UNAVAILABLE"}
_STATUS = {4401: 401, 4404: 404, 4408: 408, 4409: 409, 4410: 410, 4400: 400, 4403: 403, 4423: 423, 4429: 429, 4503: 503}


class ProcessStream:
    """A client's hold on one process, over as many connections as it takes. It does no I/O: a driver carries out its operations."""

    def __init__(self, plane: Plane, route: str, process_id: str, start: Mapping[str, Any], reattach: Mapping[str, Any]) -> None:
        self.id = process_id
        self.queue: deque[Output | OutputGapError] = deque()
        self.exit: Exit | None = None
        self.ready: dict[str, Any] | None = None
        self._plane, self._route = plane, route
        self._start, self._reattach = start, reattach
        self._socket: Any = None
        self._left = False
        self._received: dict[Stream, Any] = {"stdout": start.get("stdout_offset", 0), "stderr": start.get("stderr_offset", 0)}
        self._consumed = {"stdout": 0, "stderr": 0}
        self._acknowledged = 0
        self._unconfirmed = bytearray()
        self._stdin_offset = 0
        self._stdin_ended = False
        self._renew_at = 0.0
        self._shown = ""
        self._dialing: Any = None
        self._heard = self._asked = 0.0

    @property
    def has_room(self) -> bool:
        """Whether more may be written before the process is known to have what was."""
        return len(self._unconfirmed) < UNCONFIRMED_BYTES or self.exit is not None

    @property
    def is_away(self) -> bool:
        """Whether there is no connection: `connect` comes before `pump` then."""
        return self._socket is None

    def pump(self) -> Op[None]:
        """Waits up to a second for something to come."""
        # Another thread may leave the process meanwhile.
        socket = self._socket
        if self.exit is not None or socket is None:
            return
        try:
            yield from self._keep_in_date(socket)
            message = yield Receive(socket, SLICE)
            yield from self._take(message)
        except Dropped as drop:
            self._socket = None
            error = self._error_of(drop)
            if not _may_pass(error):
                raise error from drop

    def taken(self, item: Output | OutputGapError) -> Op[None]:
        """The reader has an item: acknowledges, so that the agent sends on and knows what a drop may take."""
        if isinstance(item, OutputGapError):
            raise item
        self._consumed[item.stream] = item.offset + len(item.data)
        total = sum(self._consumed.values())
        if total - self._acknowledged >= ACK_BYTES:
            self._acknowledged = total
            yield from self._send(self._ping())

    def write(self, data: bytes) -> Op[None]:
        """Sends a piece of stdin and keeps it until the process has it."""
        if self.exit is not None or self._stdin_ended:
            raise BoxofficeError("STDIN_CLOSED", "the process has ended, or its stdin was ended")
        self._unconfirmed += data
        yield from self._send(b"\x00" + data)
        if not self.has_room:
            yield from self._send(self._ping())

    def end_stdin(self) -> Op[None]:
        """Ends stdin."""
        self._stdin_ended = True
        yield from self._send(b"\x00")

    def control(self, frame: Mapping[str, Any]) -> Op[None]:
        """Sends a frame now. What no connection takes is lost."""
        yield from self._send(json.dumps(frame))

    def signal(self, name: str) -> Op[None]:
        """Sends a signal. For a command a request does it, which no dropped connection loses; one that has ended is fine."""
        if self._route != "/exec/ws":
            yield from self.control({"type": "signal", "signal": name})
            return
        yield from send_signal(self._plane, self.id, name)

    def detach(self) -> Op[None]:
        """Leaves the process."""
        self._left = True
        yield from self.hang_up()

    def hang_up(self) -> Op[None]:
        """Closes the connection alone, also one that is being made."""
        sockets = (self._socket, self._dialing)
        self._socket = self._dialing = None
        for socket in sockets:
            if socket is not None:
                yield HangUp(socket)

    def _send(self, message: str | bytes) -> Op[None]:
        socket = self._socket
        if socket is None:
            return
        try:
            yield Send(socket, message)
        except Dropped:
            # The next `pump` finds the same, and comes back.
            return

    def _ping(self) -> str:
        return json.dumps({"type": "ping", "stdout_offset": self._consumed["stdout"], "stderr_offset": self._consumed["stderr"]})

    def connect(self) -> Op[None]:
        """Starts the process, or comes back to it. Nothing may be written meanwhile: what the process has not got is sent again."""
        if self.exit is not None:
            return
        attempt = 0
        renewed = False
        failing_since = time.monotonic()
        refused: str | None = None
        while True:
            if self._left:
                raise BoxofficeError("DETACHED", f"this client has left {self.id}")
            token = yield from (self._plane.token.current() if refused is None else self._plane.token.renew(refused))
            refused = None
            endpoint = self._plane.endpoint
            try:
                yield from self._dial(endpoint, token)
                return
            except Dropped as dropped:
                drop = dropped
                error = self._error_of(drop)
                if wants_token(error) and not renewed:
                    renewed, refused = True, token
                    continue
                if not _may_pass(error):
                    raise error from drop
                if isinstance(error, ConnectionFailedError):
                    yield from self._plane.failed(endpoint, certain=not drop.opened)
            wait = 0.0 if drop.code == RESTART and attempt == 0 else backoff(attempt)
            if time.monotonic() + wait - failing_since > self._plane.broker.window:
                raise error
            attempt += 1
            yield Sleep(wait)

    def _dial(self, endpoint: Endpoint, token: str) -> Op[None]:
        self._dialing = socket = yield Dial(endpoint.ws + self._route, SUBPROTOCOL)
        self._shown = token
        yield Send(socket, json.dumps({"type": "auth", "token": token}))
        offsets = {"stdout_offset": self._received["stdout"], "stderr_offset": self._received["stderr"], "ack": True}
        # After the first `ready` only ever an attach: were the record gone, starting again would run the command twice.
        start = self._start if self.ready is None else {"attach": self.id, **self._reattach}
        yield Send(socket, json.dumps({"type": "start", **start, **offsets}))
        until = time.monotonic() + READY_WITHIN
        while self._socket is None and self.exit is None:
            message = yield Receive(socket, max(0.0, until - time.monotonic()))
            if message is None:
                yield HangUp(socket)
                raise Dropped(1006, "not ready in time", silent=True)
            frame = json.loads(message) if isinstance(message, str) else {}
            if frame.get("type") == "ready":
                yield from self._connected(socket, frame)
            elif frame.get("type") == "exit":
                self.exit = result_of(frame, Exit)
                yield HangUp(socket)
            elif frame.get("type") == "error":
                self._told = frame.get("error")

    _told: Any = None

    def _connected(self, socket: Any, frame: dict[str, Any]) -> Op[None]:
        first, self.ready = self.ready is None, frame
        self._socket, self._dialing, self._told = socket, None, None
        self._heard = self._asked = time.monotonic()
        self._renew_at = self._plane.token.renew_at
        for stream in _STREAMS.values():
            told = frame.get(stream) or {}
            offset = int(told.get("offset", 0))
            gap = told.get("gap")
            if isinstance(gap, dict):
                self.queue.append(OutputGapError(stream, int(gap["from"]), int(gap["to"])))
            if first or not isinstance(self._received[stream], int) or isinstance(gap, dict):
                self._received[stream] = offset
            if first:
                self._consumed[stream] = offset
        self._acknowledged = sum(self._consumed.values())
        if first:
            self._stdin_offset = int((frame.get("stdin") or {}).get("offset", 0))
        else:
            self._confirm((frame.get("stdin") or {}).get("offset"))
            if self._unconfirmed:
                yield Send(socket, b"\x00" + bytes(self._unconfirmed))
            if self._stdin_ended:
                yield Send(socket, b"\x00")
        yield Send(socket, self._ping())

    def _confirm(self, offset: Any) -> None:
        if isinstance(offset, int) and offset > self._stdin_offset:
            del self._unconfirmed[: offset - self._stdin_offset]
            self._stdin_offset = offset

    def _keep_in_date(self, socket: Any) -> Op[None]:
        if time.monotonic() >= self._renew_at:
            try:
                token = yield from self._plane.token.current()
                self._renew_at = max(time.monotonic() + 1, self._plane.token.renew_at)
                if token != self._shown:
                    self._shown = token
                    yield Send(socket, json.dumps({"type": "auth", "token": token}))
            except ConnectionFailedError:
                self._renew_at = time.monotonic() + 2
        now = time.monotonic()
        if now - self._heard > SILENT_FOR and self._asked > self._heard + PROBE_AFTER / 2:
            yield HangUp(socket)
            raise Dropped(1006, "nothing has come for a while", silent=True)
        if (not self.has_room and now - self._asked > 0.05) or now - max(self._heard, self._asked) > PROBE_AFTER:
            self._asked = now
            yield Send(socket, self._ping())

    def _take(self, message: str | bytes | None) -> Op[None]:
        if message is None:
            return
        self._heard = time.monotonic()
        if isinstance(message, bytes):
            stream = _STREAMS.get(message[0]) if message else None
            if stream is not None:
                self.queue.append(Output(stream, message[1:], self._received[stream]))
                self._received[stream] += len(message) - 1
            return
        frame = json.loads(message)
        if frame.get("type") == "exit":
            self.exit = result_of(frame, Exit)
            self._unconfirmed.clear()
            yield from self.hang_up()
        elif frame.get("type") == "pong":
            self._confirm(frame.get("stdin_offset"))
        elif frame.get("type") == "error":
            self._told = frame.get("error")

    def _error_of(self, drop: Dropped) -> BoxofficeError:
        told, self._told = self._told, None
        if drop.refusal is not None:
            return refusal_of(drop.refusal, self._plane.endpoint.ws)
        if drop.code >= 4000 or drop.code == 1011:
            if isinstance(told, dict):
                return error_of(told, status=_STATUS.get(drop.code))
            if drop.code in _CLOSED:
                return error_of({"code": _CLOSED[drop.code], "message": f"closed with {drop.code}"}, status=_STATUS[drop.code])
        at = origin(self._plane.endpoint.ws)
        if drop.silent:
            return SilenceError(f"{at} is silent ({drop})", certain=not drop.opened)
        return ConnectionFailedError(f"{at}: the connection was lost ({drop})", certain=not drop.opened)


def _may_pass(error: BoxofficeError) -> bool:
    """Whether the same process may be reached again."""
    return is_passing(error, ("CONNECTION_FAILED", "SANDBOX_STARTING", "RATE_LIMITED", "BACKEND_UNAVAILABLE", "TIMEOUT")) or wants_token(
        error
    )
