"""A network that takes everything and says nothing: a `SilenceError` in bounded time."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from boxoffice import AsyncClient, Client, Session, SilenceError
from boxoffice._async.client import AsyncSession
from boxoffice._sync.driver import Driver
from boxoffice._wire.effects import Effect, Http, Unreachable

SECONDS = 0.1
WINDOW = 0.5
"""Of a session that was made with the usual one: a busy broker may take its time for that."""


@pytest.fixture
def silent() -> Iterator[str]:
    """Where connections are made and nobody ever says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def mislead(session: Session | AsyncSession, to: str) -> None:
    session._plane.endpoint = replace(session._plane.endpoint, http=f"http://{to}", ws=f"ws://{to}", relay=False)


def test_control_calls(silent: str) -> None:
    with Client(f"http://{silent}", api_key="key", request_timeout=SECONDS) as client:
        with pytest.raises(SilenceError) as caught:
            client.session("python-silent", wait_seconds=0)
        assert caught.value.code == "CONNECTION_FAILED"
    with Client(f"http://{silent}", api_key="key") as patient, pytest.raises(SilenceError):
        patient.release("ssn_x", request_timeout=SECONDS)


def test_calls_of_a_session(silent: str, thread_id: str) -> None:
    with Client(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"]) as client:
        session = client.session(thread_id, relay="never")
        usual, client._broker.window = client._broker.window, WINDOW
        endpoint = session._plane.endpoint
        mislead(session, silent)
        with pytest.raises(SilenceError):
            session.files.read("a", request_timeout=SECONDS)
        with pytest.raises(SilenceError):
            session.files.write("a", b"x" * 20_000_000, request_timeout=SECONDS)
        with pytest.raises(SilenceError):
            session.exec("true", timeout=SECONDS, request_timeout=SECONDS)
        with pytest.raises(SilenceError):
            session.start("cat", request_timeout=SECONDS)
        there, client._broker.url = client._broker.url, f"http://{silent}"
        with pytest.raises(SilenceError):
            next(session.events(request_timeout=SECONDS))
        client._broker.url = there
        session._plane.endpoint, client._broker.window = endpoint, usual
        session.release()


async def test_the_asynchronous_client(silent: str, thread_id: str) -> None:
    async with AsyncClient(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"]) as client:
        session = await client.session(thread_id, relay="never")
        usual, client._broker.window = client._broker.window, WINDOW
        endpoint = session._plane.endpoint
        mislead(session, silent)
        with pytest.raises(SilenceError):
            await session.files.read("a", request_timeout=SECONDS)
        with pytest.raises(SilenceError):
            await session.start("cat", request_timeout=SECONDS)
        session._plane.endpoint, client._broker.window = endpoint, usual
        await session.release()


class Deaf(Driver):
    """Hears nothing from one place."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def _perform(self, effect: Effect) -> object:
        if isinstance(effect, Http) and effect.url.startswith(self.place):
            raise Unreachable("deaf", certain=False, silent=True)
        outcome: object = super()._perform(effect)
        return outcome


def test_the_relay_is_the_way_where_the_agent_is_silent(session: Session) -> None:
    session.files.write("a", "there")
    plane = session._plane
    assert session.mode == "direct"
    assert Session(Deaf(plane.endpoint.http), plane).files.read_text("a") == "there"
    assert session.mode == "relay"


def test_a_timeout_that_cannot_be(session: Session) -> None:
    for seconds in (0, -1, float("inf")):
        with pytest.raises(ValueError, match="request_timeout"):
            session.exec("true", request_timeout=seconds)
