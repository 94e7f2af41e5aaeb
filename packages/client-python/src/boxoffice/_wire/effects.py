"""What an operation asks its driver to do."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Http:
    """One request. `timeout` is the seconds without a byte; None waits, and leaves dead peers to the keepalive of TCP."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = None
    timeout: float | None = 60.0


@dataclass(frozen=True)
class Response:
    """The whole answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True)
class Sleep:
    """Waits for `seconds`."""

    seconds: float


@dataclass(frozen=True)
class Dial:
    """Opens a WebSocket and gives the driver's own object for it."""

    url: str
    subprotocol: str


@dataclass(frozen=True)
class Send:
    """Sends one message."""

    socket: Any
    message: str | bytes


@dataclass(frozen=True)
class Receive:
    """Gives the next message, or None after `timeout` seconds."""

    socket: Any
    timeout: float


@dataclass(frozen=True)
class HangUp:
    """Closes a socket."""

    socket: Any


Effect = Http | Sleep | Dial | Send | Receive | HangUp
Op = Generator[Effect, Any, T]


class Unreachable(Exception):
    """Outcome of `Http`: nobody answered. `certain`: not even a connection was made."""

    def __init__(self, why: str, *, certain: bool) -> None:
        super().__init__(why)
        self.certain = certain


class Dropped(Exception):
    """Outcome of `Dial`, `Send` and `Receive`: the socket is closed. `refusal` is the answer to an upgrade that was refused."""

    def __init__(self, code: int, why: str, *, opened: bool = True, refusal: Response | None = None) -> None:
        super().__init__(why)
        self.code, self.opened, self.refusal = code, opened, refusal
