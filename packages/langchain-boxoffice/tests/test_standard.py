"""The standard tests of the ecosystem."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from boxoffice import Client
from langchain_tests.integration_tests import SandboxIntegrationTests

from langchain_boxoffice import BoxofficeSandbox


class TestBoxofficeSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, client: Client) -> Iterator[BoxofficeSandbox]:
        with client.session(f"standard-{uuid.uuid4().hex}") as session:
            # The tests run `python`, which Debian calls `python3`.
            session.files.write("bin/python", '#!/bin/sh\nexec python3 "$@"\n', mode="0755")
            env = {"PATH": "/workspace/bin:/usr/local/bin:/usr/bin:/bin"}
            yield BoxofficeSandbox(session, env=env, conventions="standard-tests")
