"""What an operation asks its driver to do."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Http:
    """One request. The driver ends it with `Unreachable` after the seconds of `request_timeout` without a byte.

    Attributes:
        wait: Seconds that the server may take beyond that, because it was asked for something that lasts. None: it may take any time, and a
            dead peer is left to the keepalive of TCP.
        at_most: Seconds without a byte, however long `request_timeout` is.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = None
    wait: float | None = 0.0
    at_most: float | None = None


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
class Listen:
    """One request whose answer lasts: gives a `Listened` for 200, and for all else the whole `Response`."""

    request: Http
    silence: float
    """Seconds without a byte while the answer is read."""


@dataclass(frozen=True)
class Listened:
    """An answer that is being read. `answer` and `chunks` are the driver's own."""

    answer: Any
    chunks: Any


@dataclass(frozen=True)
class Hear:
    """Gives the next bytes of a `Listened`; none at its end."""

    listened: Listened


@dataclass(frozen=True)
class Leave:
    """Ends a `Listened`."""

    listened: Listened


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
    """Gives the next message, or None after `timeout` seconds, or `request_timeout` where that is less."""

    socket: Any
    timeout: float


@dataclass(frozen=True)
class HangUp:
    """Closes a socket."""

    socket: Any


Effect = Http | Listen | Hear | Leave | Sleep | Dial | Send | Receive | HangUp
Op = Generator[Effect, Any, T]


class Unreachable(Exception):
    """Outcome of `Http`, `Listen` and `Hear`: nobody answered.

    `certain`: not even a connection was made. `silent`: nothing came for too long.
    """

    def __init__(self, why: str, *, certain: bool, silent: bool = False) -> None:
        super().__init__(why)
        self.certain, self.silent = certain, silent


class Dropped(Exception):
    """Outcome of `Dial`, `Send` and `Receive`: the socket is closed.

    `refusal` is the answer to an upgrade that was refused. `silent`: it was open for too long without a word.
    """

    def __init__(self, code: int, why: str, *, opened: bool = True, silent: bool = False, refusal: Response | None = None) -> None:
        super().__init__(why)
        self.code, self.opened, self.silent, self.refusal = code, opened, silent, refusal
