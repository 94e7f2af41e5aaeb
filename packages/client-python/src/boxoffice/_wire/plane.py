"""The dataplane of one session: where it is, with which token, and what is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ..errors import BoxofficeError, ConnectionFailedError, SilenceError
from ..types import SessionOptions
from .broker import Broker
from .effects import Http, Op, Response
from .retry import ALSO_BUSY, PASSING, retrying, send
from .token import Token

PING_SECONDS = 5
"""How long an endpoint has to answer a ping."""
DOUBTS = 2
"""A connection that breaks may have met a restart; without two in a row the direct endpoint is not given up."""


@dataclass(frozen=True)
class Endpoint:
    """Opaque URLs, to which only suffixes are appended [C-42]. `relay`: through the broker."""

    http: str
    ws: str
    relay: bool


class Plane:
    """One session. It falls back from the agent to the relay by itself (contract 3.11), and stays there."""

    def __init__(self, broker: Broker, negotiated: dict[str, Any], options: SessionOptions) -> None:
        self.broker = broker
        self.negotiated = negotiated
        self.options = options
        self.session_id = str(negotiated["session_id"])
        self.endpoint = _endpoint_of(negotiated)
        self.token = Token(negotiated, lambda once: broker.refresh(self.session_id, self._renewal(), once=once))
        self._doubts = 0

    def _renewal(self) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if "actor" in self.options:
            body["actor"] = self.options["actor"]
        if "capabilities" in self.options:
            body["requested_capabilities"] = list(self.options["capabilities"])
        return body

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        wait: float | None = 0,
        busy: bool = True,
        repeat: bool = True,
        settled: Callable[[BoxofficeError], Op[bool]] | None = None,
    ) -> Op[Response]:
        """One request that may be repeated: over dropped connections, with another token, through the relay.

        Args:
            wait: Seconds that the sandbox may take beyond `request_timeout`; None for any time.
            busy: It is repeated after 429 as well.
            repeat: False: it is not repeated once it may have been done.
            settled: Once an answer was lost, says of a refusal whether it only means that the request before was done.
        """
        sent = {**(headers or {})}
        if body is not None:
            sent["content-type"] = "application/json"
            content = json.dumps(body).encode()
        suffix = path + (f"?{urlencode(query)}" if query else "")
        lost = False

        def attempt() -> Op[Response | BoxofficeError]:
            nonlocal lost
            token = yield from self.token.current()
            for last in (False, True):
                endpoint = self.endpoint
                request = Http(method, endpoint.http + suffix, {**sent, "authorization": f"Bearer {token}"}, content, wait)
                try:
                    response = yield from send(request)
                except BoxofficeError as error:
                    if wants_token(error) and not last:
                        token = yield from self.token.renew(token)
                        continue
                    if isinstance(error, SilenceError) and not error.certain:
                        if self._has_relay(endpoint) and not (yield from self._answers(endpoint, token)):
                            yield from self.failed(endpoint, certain=True)
                    elif isinstance(error, ConnectionFailedError):
                        yield from self.failed(endpoint, certain=error.certain)
                    if lost and settled is not None and (yield from settled(error)):
                        return Response(204, {}, b"")
                    lost = lost or _may_be_done(error)
                    if lost and not repeat:
                        # Given, not raised: what is raised may be repeated.
                        return error
                    raise
                self._doubts = 0
                return response
            raise AssertionError("unreachable")

        codes: Sequence[str] = ALSO_BUSY if busy else PASSING
        outcome = yield from retrying(attempt, self.broker.window, codes)
        if isinstance(outcome, BoxofficeError):
            raise outcome
        return outcome

    def _answers(self, endpoint: Endpoint, token: str) -> Op[bool]:
        """Whether an endpoint that is silent on one request answers another."""
        ping = Http("GET", f"{endpoint.http}/ping", {"authorization": f"Bearer {token}"}, at_most=PING_SECONDS)
        try:
            yield from send(ping)
        except ConnectionFailedError:
            return False
        except BoxofficeError as error:
            return not error.is_code("BACKEND_UNAVAILABLE")
        return True

    def _has_relay(self, endpoint: Endpoint) -> bool:
        """Whether the relay may be another way than this one."""
        return endpoint is self.endpoint and not endpoint.relay and self.options.get("relay") != "never"

    def failed(self, endpoint: Endpoint, *, certain: bool) -> Op[None]:
        """Nobody answered on an endpoint: asks the broker for its relay, where that is allowed."""
        if not self._has_relay(endpoint):
            return
        self._doubts += 1
        if not certain and self._doubts < DOUBTS:
            return
        try:
            answer = yield from self.broker.negotiate(str(self.negotiated.get("thread_id")), self._asks_relay(), once=True)
        except BoxofficeError:
            return
        # The thread may have another session by now, and that would be another sandbox.
        other = _endpoint_of(answer)
        if answer["session_id"] == self.session_id and other.relay:
            self.endpoint, self._doubts = other, 0

    def _asks_relay(self) -> SessionOptions:
        options: SessionOptions = {"mode": "get", "relay": "always", "wait_seconds": 0}
        if "actor" in self.options:
            options["actor"] = self.options["actor"]
        return options


def means(code: str) -> Callable[[BoxofficeError], Op[bool]]:
    """A `settled` that goes by the code alone."""

    def settled(error: BoxofficeError) -> Op[bool]:
        yield from ()
        return error.is_code(code)

    return settled


def _may_be_done(error: BoxofficeError) -> bool:
    """Whether nobody says if the request was done. The relay goes by `BACKEND_UNAVAILABLE` where it has lost the agent."""
    return (isinstance(error, ConnectionFailedError) and not error.certain) or error.is_code("BACKEND_UNAVAILABLE")


def wants_token(error: BoxofficeError) -> bool:
    """Whether another token may mend it: an expired one, or one of an earlier incarnation."""
    if error.code == "SESSION_EXPIRED":
        return error.details.get("reason") in ("incarnation", "revoked")
    return error.is_code("UNAUTHENTICATED")


def _endpoint_of(negotiated: dict[str, Any]) -> Endpoint:
    sandbox = negotiated["sandbox"]
    dataplane = negotiated.get("dataplane")
    relay = isinstance(dataplane, dict) and dataplane.get("mode") == "relay"
    return Endpoint(str(sandbox["http_base_url"]), str(sandbox["ws_base_url"]), relay)
