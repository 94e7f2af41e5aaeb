"""The events of a session, over as many connections as it takes: none lost, none twice."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ..errors import ConnectionFailedError, SilenceError
from ..types import SessionEvent
from .broker import Broker
from .effects import Hear, Leave, Listen, Listened, Op, Response, Sleep, Unreachable
from .retry import backoff, origin, refusal_of, retrying

SILENT_FOR = 45.0
"""The server says something each 15 s; a connection that is silent for so long is dead."""
_TYPES = {"state", "wake", "egress", "exec.exit", "process.exit", "lease", "released", "gap"}


class EventStream:
    """A client's place in the events of a session."""

    def __init__(self, broker: Broker, session_id: str, after: int | None) -> None:
        self._ended = False
        self._queue: deque[SessionEvent] = deque()
        self._broker, self._session_id, self._after = broker, session_id, after
        self._listened: Listened | None = None
        self._messages = Messages()
        self._idle = 0

    @property
    def over(self) -> bool:
        """Whether there is no event to come."""
        return self._ended and not self._queue

    def read(self) -> Op[SessionEvent | None]:
        """The event that comes next; None after a mere sign of life, or a connection that has dropped."""
        if not self._queue and not self._ended:
            yield from self._hear()
        return self._queue.popleft() if self._queue else None

    def _hear(self) -> Op[None]:
        if self._listened is None:
            self._listened = yield from retrying(self._listen, self._broker.window, ("CONNECTION_FAILED",))
            self._messages = Messages()
            return
        try:
            part: bytes = yield Hear(self._listened)
        except Unreachable:
            part = b""
        if not part:
            yield from self.leave()
            yield Sleep(backoff(self._idle))
            self._idle += 1
        for event in self._messages.take(part):
            if event is not None and not self._ended:
                self._idle = 0
                self._after = self._after if event.id is None else event.id
                self._ended = _is_last(event)
                self._queue.append(event)

    def leave(self) -> Op[None]:
        """Closes the connection."""
        listened, self._listened = self._listened, None
        if listened is not None:
            yield Leave(listened)

    def _listen(self) -> Op[Listened | None]:
        request = self._broker.events(self._session_id, self._after)
        try:
            answer: Listened | Response = yield Listen(request, SILENT_FOR)
        except Unreachable as error:
            kind = SilenceError if error.silent else ConnectionFailedError
            raise kind(f"{origin(request.url)} cannot be reached ({error})", certain=error.certain) from error
        if isinstance(answer, Listened):
            return answer
        if answer.status == 204:
            self._ended = True
            return None
        refusal = refusal_of(answer, request.url)
        if refusal.retryable:
            # Busy, or about to stop: another try, maybe at another broker, is what it asks for.
            raise ConnectionFailedError(str(refusal)) from refusal
        raise refusal


class Messages:
    """Server-sent events of a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def take(self, part: bytes) -> Iterator[SessionEvent | None]:
        """The events that end in a part; None for one that this version does not know."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            name, _, value = line.rstrip(b"\r").decode("utf-8", "replace").partition(":")
            if name:
                self._fields[name] = value.removeprefix(" ")
            elif not line.strip():
                fields, self._fields = self._fields, {}
                yield _event(fields)


def _event(fields: dict[str, str]) -> SessionEvent | None:
    kind = fields.get("event", "")
    try:
        data: dict[str, Any] = json.loads(fields["data"])
        if kind not in _TYPES:
            return None
        if kind == "gap":
            return SessionEvent(kind, None, None, {"from": data["from"], "to": data["to"]})
        at = datetime.fromisoformat(str(data.pop("ts")).replace("Z", "+00:00"))
        data.pop("session_id", None)
        return SessionEvent(kind, int(fields["id"]), at, data)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _is_last(event: SessionEvent) -> bool:
    state = event.data.get("state") if event.type == "state" else None
    return event.type == "released" or state == "failed" or (state == "terminated" and event.data.get("reason") != "released")
