"""E2B's published Python SDK against a running Boxoffice (contract 7.3). Runs every `test_…`, and says which has passed."""

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Callable

from e2b import (
    AsyncSandbox,
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxQuery,
)

URL = os.environ["BOXOFFICE_URL"] + "/compat/e2b"
os.environ["E2B_API_URL"] = URL
os.environ["E2B_SANDBOX_URL"] = URL
os.environ["E2B_API_KEY"] = os.environ["BOXOFFICE_API_KEY"]
os.environ["E2B_VALIDATE_API_KEY"] = "false"


def test_commands(sandbox: Sandbox) -> None:
    result = sandbox.commands.run('echo "$A"; echo err >&2', envs={"A": "b c"})
    assert (result.stdout, result.stderr, result.exit_code) == ("b c\n", "err\n", 0)
    try:
        sandbox.commands.run("exit 42")
    except CommandExitException as failed:
        assert failed.exit_code == 42
    else:
        raise AssertionError("no exception")


def test_background(sandbox: Sandbox) -> None:
    cat = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(cat.pid, "one\n")
    assert cat.pid in [process.pid for process in sandbox.commands.list()]
    sandbox.commands.close_stdin(cat.pid)
    assert cat.wait().stdout == "one\n"
    sleeper = sandbox.commands.run("sleep 600", background=True)
    again = sandbox.commands.connect(sleeper.pid)
    assert again.kill()
    try:
        again.wait()
    except CommandExitException as killed:
        assert killed.exit_code == 137
    assert not sandbox.commands.kill(sleeper.pid)


def test_terminal(sandbox: Sandbox) -> None:
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(terminal.pid, b'echo "size $(stty size)"; exit 0\n')
    shown: list[bytes] = []
    terminal.wait(on_pty=lambda data: shown.append(data))
    assert b"size 40 120" in b"".join(shown)


def test_files(sandbox: Sandbox) -> None:
    files = sandbox.files
    files.write("py/a.txt", "grüße\n")
    assert files.read("py/a.txt") == "grüße\n"
    assert [(entry.name, entry.path) for entry in files.list("py")] == [("a.txt", "/workspace/py/a.txt")]
    assert files.exists("py/a.txt") and not files.exists("py/b.txt")
    assert files.make_dir("py/deep") and not files.make_dir("py/deep")
    assert files.rename("py/a.txt", "py/deep/b.txt").path == "/workspace/py/deep/b.txt"
    assert files.get_info("py/deep/b.txt").size == 8
    files.remove("py")
    try:
        files.read("py/a.txt")
    except FileNotFoundException:
        return
    raise AssertionError("no exception")


def test_watch(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("seen")
    watch = sandbox.files.watch_dir("seen")
    sandbox.commands.run("echo text > seen/file.txt")
    told: list[tuple[FilesystemEventType, str]] = []
    until = time.monotonic() + 60
    while (FilesystemEventType.WRITE, "file.txt") not in told:
        assert time.monotonic() < until, told
        told += [(event.type, event.name) for event in watch.get_new_events()]
    assert (FilesystemEventType.CREATE, "file.txt") in told
    watch.stop()
    try:
        sandbox.files.watch_dir("none")
    except FileNotFoundException:
        return
    raise AssertionError("no exception")


def test_life(_: Sandbox) -> None:
    sandbox = Sandbox.create(timeout=600, metadata={"purpose": "python"})
    query = SandboxQuery(metadata={"purpose": "python"})
    assert [found.sandbox_id for found in Sandbox.list(query=query).next_items()] == [sandbox.sandbox_id]
    sandbox.commands.run("echo kept > kept.txt")
    sandbox.pause()
    assert not sandbox.is_running()
    assert Sandbox.connect(sandbox.sandbox_id).files.read("kept.txt") == "kept\n"
    sandbox.set_timeout(1200)
    assert sandbox.get_info().state.value == "running"
    assert sandbox.kill() and not sandbox.kill()
    assert not sandbox.is_running()
    try:
        Sandbox.connect(sandbox.sandbox_id)
    except NotFoundException:
        return
    raise AssertionError("no exception")


def test_async(_: Sandbox) -> None:
    async def use() -> None:
        async with await AsyncSandbox.create() as sandbox:
            results = await asyncio.gather(*(sandbox.commands.run(f"echo {n}") for n in range(4)))
            assert [result.stdout for result in results] == [f"{n}\n" for n in range(4)]

    asyncio.run(use())


def main() -> int:
    tests: list[Callable[[Sandbox], None]] = [test for name, test in globals().items() if name.startswith("test_")]
    failures = 0
    with Sandbox.create() as sandbox:
        for test in tests:
            try:
                test(sandbox)
                print("passed", test.__name__, flush=True)
            except Exception:
                failures += 1
                print("failed", test.__name__, traceback.format_exc(), flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())
