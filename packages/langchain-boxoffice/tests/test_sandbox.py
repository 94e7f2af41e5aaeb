"""What the standard tests leave out."""

from __future__ import annotations

import asyncio
import base64
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from boxoffice import Client, NotFoundError, Session, SessionEndedError
from deepagents.backends.protocol import ExecuteResponse
from langchain_core.runnables import RunnableConfig, RunnableLambda

from langchain_boxoffice import BoxofficeSandbox, ThreadSessions


@pytest.fixture
def session(client: Client) -> Iterator[Session]:
    with client.session(f"sandbox-{uuid.uuid4().hex}") as session:
        yield session


@pytest.fixture
def sandbox(session: Session) -> BoxofficeSandbox:
    return BoxofficeSandbox(session)


def test_file_methods_run_nothing_in_the_sandbox(sandbox: BoxofficeSandbox, session: Session) -> None:
    assert sandbox.write("/workspace/a/b.py", "one\ntwo\n").error is None
    assert sandbox.edit("/workspace/a/b.py", "two", "three").occurrences == 1
    page = sandbox.read("/workspace/a/b.py")
    assert page.file_data is not None
    assert page.file_data["content"] == "one\nthree"
    assert [entry["path"] for entry in sandbox.ls("/workspace/a").entries or []] == ["/workspace/a/b.py"]
    assert [info["path"] for info in sandbox.glob("*.py").matches or []] == ["/workspace/a/b.py"]
    assert sandbox.delete("/workspace/a").error is None
    assert sandbox.download_files(["/workspace/a/b.py"])[0].error == "file_not_found"
    assert session.commands.list() == []


def test_write_overwrites_and_glob_gives_absolute_files(sandbox: BoxofficeSandbox) -> None:
    assert sandbox.write("/workspace/dir/x.txt", "first").error is None
    assert sandbox.write("/workspace/dir/x.txt", "second").error is None
    matches = sandbox.glob("**/*", "/workspace").matches
    assert [(info["path"], info["is_dir"]) for info in matches or []] == [("/workspace/dir/x.txt", False)]
    assert "not allowed" in str(sandbox.glob("../*").error)


def test_an_executable_stays_one(sandbox: BoxofficeSandbox) -> None:
    sandbox.execute("printf '#!/bin/sh\\necho old\\n' > run.sh; chmod 755 run.sh")
    assert sandbox.edit("/workspace/run.sh", "old", "new").error is None
    assert sandbox.execute("./run.sh").output == "new\n"


def test_invented_directories_lie_below_the_workspace(sandbox: BoxofficeSandbox) -> None:
    assert sandbox.write("/large_tool_results/1", "text").error is None
    assert sandbox.execute("cat /workspace/large_tool_results/1").output == "text"
    assert [entry["path"] for entry in sandbox.ls("/large_tool_results").entries or []] == ["/large_tool_results/1"]
    assert [match["path"] for match in sandbox.grep("text", "/large_tool_results").matches or []] == ["/large_tool_results/1"]


def test_paths_that_cannot_be(sandbox: BoxofficeSandbox) -> None:
    for path in ("relative", "/workspace/nul\0", "/workspace/\ud800", "/workspace/" + "x" * 5000):
        assert sandbox.download_files([path])[0].error == "invalid_path"
        assert sandbox.write(path, "x").error is not None
        assert sandbox.read(path).error is not None
        assert sandbox.ls(path).error is not None
    assert sandbox.write("/workspace/x", "\ud800").error is not None


def test_crlf_is_kept(sandbox: BoxofficeSandbox) -> None:
    sandbox.upload_files([("/workspace/dos.txt", b"one\r\ntwo\r\n")])
    assert sandbox.edit("/workspace/dos.txt", "one\ntwo", "1\n2").error is None
    assert sandbox.download_files(["/workspace/dos.txt"])[0].content == b"1\r\n2\r\n"


def test_pages(sandbox: BoxofficeSandbox) -> None:
    sandbox.write("/workspace/lines", "".join(f"{number}\n" for number in range(10)))
    page = sandbox.read("/workspace/lines", offset=4, limit=3)
    assert (page.start_line, page.end_line, page.next_offset, page.total_lines) == (5, 7, 7, 10)
    sandbox.write("/workspace/long", "x" * 600_000 + "\nnext")
    long = sandbox.read("/workspace/long")
    assert (long.end_line, long.next_offset) == (1, 1)
    assert sandbox.read("/workspace/none").error == "File '/workspace/none': file_not_found"
    sandbox.upload_files([("/workspace/x.png", b"\x89PNG")])
    image = sandbox.read("/workspace/x.png")
    assert image.file_data is not None
    assert base64.b64decode(image.file_data["content"]) == b"\x89PNG"


def test_execute(sandbox: BoxofficeSandbox) -> None:
    assert sandbox.execute("echo a; echo b >&2; echo c; exit 42") == ExecuteResponse("a\nb\nc\n", 42, False)
    assert sandbox.execute("sleep 60", timeout=1).exit_code == 124
    assert sandbox.execute("no-such-program").exit_code == 127
    assert sandbox.execute("syntax (").exit_code not in (0, None)
    assert sandbox.execute("echo '" + "x" * 30_000_000 + "'").exit_code == 126
    large = sandbox.execute("head -c 20000000 /dev/zero | tr '\\0' x")
    assert (len(large.output), large.truncated) == (16 * 1024 * 1024, True)


async def test_fifty_tool_calls_at_once(sandbox: BoxofficeSandbox) -> None:
    results = await asyncio.gather(*(sandbox.aexecute(f"echo {number}") for number in range(50)))
    assert [result.output for result in results] == [f"{number}\n" for number in range(50)]


async def test_long_commands_hold_up_no_file_call(sandbox: BoxofficeSandbox) -> None:
    with ThreadPoolExecutor(1) as small:
        asyncio.get_running_loop().set_default_executor(small)
        commands = [asyncio.create_task(sandbox.aexecute("until [ -e go ]; do sleep 0.05; done; echo gone")) for _ in range(8)]
        await asyncio.sleep(0)
        assert (await sandbox.awrite("/workspace/go", "")).error is None
        assert [result.output for result in await asyncio.gather(*commands)] == ["gone\n"] * 8


def test_parallel_edits_lose_nothing(sandbox: BoxofficeSandbox) -> None:
    sandbox.write("/workspace/list", "".join(f"<{number}>\n" for number in range(20)))
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: sandbox.edit("/workspace/list", f"<{number}>", f"[{number}]"), range(20)))
    assert sandbox.execute("cat list").output == "".join(f"[{number}]\n" for number in range(20))


def test_a_command_survives_an_agent_that_was_killed(sandbox: BoxofficeSandbox, session: Session) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.execute, "echo x >> ran; until [ -e go ]; do sleep 0.05; done; cat ran")
        session.exec("until [ -e ran ]; do sleep 0.05; done")
        httpx.post(f"{os.environ['BOXOFFICE_TEST_CONTROL']}/restart-agent", timeout=120).raise_for_status()
        session.files.write("go", "")
        assert running.result(120) == ExecuteResponse("x\n", 0, False)


def test_a_released_session_raises(sandbox: BoxofficeSandbox, session: Session) -> None:
    session.release()
    with pytest.raises((SessionEndedError, NotFoundError)):
        sandbox.execute("true")


@pytest.mark.parametrize("token_is_due", [False, True])
def test_a_thread_gets_another_session_after_its_own_has_ended(client: Client, token_is_due: bool) -> None:
    thread_id = f"sandbox-{uuid.uuid4().hex}"
    sandbox = BoxofficeSandbox.for_threads(client)
    call: RunnableLambda[str, str] = RunnableLambda(lambda command: sandbox.execute(command).output)
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    assert call.invoke("echo first", config) == "first\n"
    sessions = sandbox._source
    assert isinstance(sessions, ThreadSessions)
    held = sessions.of(thread_id)
    client.release(held.id)
    if token_is_due:
        held._plane.token.renew_at = held._plane.token.ends_at = 0
    with pytest.raises((SessionEndedError, NotFoundError)) as ended:
        call.invoke("echo none", config)
    assert isinstance(ended.value, NotFoundError) or not token_is_due
    assert call.invoke("echo second", config) == "second\n"
    client.release(sessions.of(thread_id).id)
