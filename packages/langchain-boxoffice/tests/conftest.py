"""A running Boxoffice, as the environment names it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from boxoffice import Client


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    with Client(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"], reconnect_window=60) as client:
        yield client
