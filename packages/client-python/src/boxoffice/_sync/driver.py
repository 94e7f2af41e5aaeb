"""Carries out what operations ask for, with httpx and websockets."""

from __future__ import annotations

import time
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from .._transport import (
    LIMITS,
    REQUEST_TIMEOUT,
    checked_timeout,
    dropped,
    http_arguments,
    refuse_elsewhere,
    response_of,
    socket_arguments,
    socket_options,
    unreachable,
)
from .._wire.effects import Dial, Dropped, Effect, HangUp, Hear, Http, Leave, Listen, Listened, Op, Receive, Send, Sleep, T, Unreachable


class Driver:
    """Carries out what operations ask for."""

    def __init__(self, request_timeout: float = REQUEST_TIMEOUT, http: httpx.Client | None = None) -> None:
        self.request_timeout = checked_timeout(request_timeout)
        self.http = http or httpx.Client(transport=httpx.HTTPTransport(limits=LIMITS, socket_options=socket_options()))

    def within(self, request_timeout: float | None) -> Driver:
        """The same with another `request_timeout`, where one is given."""
        return self if request_timeout is None else Driver(request_timeout, self.http)

    def run(self, operation: Op[T]) -> T:
        try:
            effect = next(operation)
            while True:
                try:
                    outcome = self._perform(effect)
                except (Dropped, Unreachable) as error:
                    effect = operation.throw(error)
                else:
                    effect = operation.send(outcome)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            operation.close()

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, (Http, Listen, Hear, Leave)):
            try:
                return self._exchange(effect)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise unreachable(error) from error
        if isinstance(effect, Sleep):
            return time.sleep(effect.seconds)
        try:
            if isinstance(effect, Dial):
                connection = connect(effect.url, **socket_arguments(effect.subprotocol, self.request_timeout))
                try:
                    refuse_elsewhere(connection, effect.url, effect.subprotocol)
                except Dropped:
                    connection.close()
                    raise
                return connection
            if isinstance(effect, Send):
                return effect.socket.send(effect.message)
            if isinstance(effect, Receive):
                try:
                    return effect.socket.recv(timeout=min(effect.timeout, self.request_timeout))
                except TimeoutError:
                    return None
            if isinstance(effect, HangUp):
                return effect.socket.close()
        except (WebSocketException, OSError, TimeoutError) as error:
            raise dropped(error) from error
        raise AssertionError(effect)

    def _exchange(self, effect: Http | Listen | Hear | Leave) -> Any:
        if isinstance(effect, Http):
            return response_of(self.http.request(**http_arguments(effect, self.request_timeout)))
        if isinstance(effect, Hear):
            return next(effect.listened.chunks, b"")
        if isinstance(effect, Leave):
            return effect.listened.answer.close()
        arguments = http_arguments(effect.request, self.request_timeout)
        del arguments["follow_redirects"]
        request = self.http.build_request(**arguments)
        answer = self.http.send(request, stream=True, follow_redirects=False)
        if answer.status_code == 200:
            # The time between two parts of a body is read when the first one is.
            request.extensions["timeout"]["read"] = effect.silence
            return Listened(answer, answer.iter_bytes())
        try:
            answer.read()
            return response_of(answer)
        finally:
            answer.close()
