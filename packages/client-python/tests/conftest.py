"""A running Boxoffice, as the environment names it, and a session for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest

from boxoffice import AsyncClient, AsyncSession, Client, Session


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    with Client(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"], reconnect_window=60) as client:
        yield client


@pytest.fixture
def thread_id() -> str:
    return f"python-{uuid.uuid4().hex}"


@pytest.fixture
def session(client: Client, thread_id: str) -> Iterator[Session]:
    with client.session(thread_id) as session:
        yield session


@pytest.fixture
async def async_session(thread_id: str) -> AsyncIterator[AsyncSession]:
    async with (
        AsyncClient(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"], reconnect_window=60) as client,
        await client.session(thread_id) as session,
    ):
        yield session


@pytest.fixture
def control() -> Callable[[str], None]:
    """Cuts connections, or ends and starts programs of the stack."""

    def act(name: str) -> None:
        httpx.post(f"{os.environ['BOXOFFICE_TEST_CONTROL']}/{name}", timeout=120).raise_for_status()

    return act
