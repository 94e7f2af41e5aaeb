"""LangSmith's published Python client against a running Boxoffice (contract 7.2). Runs every `test_…`, and says which has passed."""

import asyncio
import os
import sys
import traceback
from collections.abc import Callable

from langsmith.sandbox import (
    AsyncSandboxClient,
    ResourceNotFoundError,
    Sandbox,
    SandboxClient,
    SandboxClientError,
)

ENDPOINT = os.environ["BOXOFFICE_URL"] + "/compat/langsmith/v2/sandboxes"
API_KEY = os.environ["BOXOFFICE_API_KEY"]


def test_run(box: Sandbox) -> None:
    parts: list[str] = []
    result = box.run('echo "$A $B"; echo err >&2; exit 42', env={"A": "a b"}, on_stdout=parts.append)
    assert (result.stdout, result.stderr, result.exit_code) == ("a b of-the-box\n", "err\n", 42)
    assert "".join(parts) == result.stdout
    config = {"env_vars": {"B": "own"}, "work_dir": "/tmp"}
    assert box.run('echo "$B $PWD"', run_config=config).stdout == "own /tmp\n"


def test_background(box: Sandbox) -> None:
    cat = box.run("cat", wait=False, close_input=False)
    cat.send_input("grüße\n")
    cat.close_input()
    assert (cat.result.stdout, cat.result.exit_code) == ("grüße\n", 0)
    sleeper = box.run("sleep 600", wait=False)
    assert sleeper.command_id is not None
    # This client closes its socket with the kill.
    sleeper.kill()
    assert box.reconnect(sleeper.command_id).result.exit_code == 137


def test_reconnect(box: Sandbox) -> None:
    handle = box.run("echo first; until [ -e go ]; do sleep 0.05; done; echo then", wait=False)
    assert handle.command_id is not None and next(iter(handle)).data == "first\n"
    again = box.reconnect(handle.command_id, stdout_offset=6)
    box.write("go", "")
    assert [(chunk.stream, chunk.data, chunk.offset) for chunk in again] == [("stdout", "then\n", 6)]
    assert again.result.exit_code == 0


def test_terminal(box: Sandbox) -> None:
    asked = box.run('stty -echo; read line; test -t 1 && echo "got $line"; exit 3', wait=False, pty=True)
    asked.send_input("one\n")
    assert (asked.result.stdout.endswith("got one\r\n"), asked.result.exit_code) == (True, 3)


def test_files(box: Sandbox) -> None:
    data = bytes(range(256))
    box.write("/workspace/py/a ü.bin", data)
    assert box.read("/workspace/py/a ü.bin") == data
    stat = box.stat("/workspace/py/a ü.bin")
    assert stat.size_bytes == 256
    assert box.read_range("/workspace/py/a ü.bin", start=2, end=4).content == data[2:5]
    try:
        box.read("/workspace/py/none")
    except ResourceNotFoundError:
        return
    raise AssertionError("no exception")


def test_search(box: Sandbox) -> None:
    box.write("/workspace/src/a.py", "one\ntwo a+b\n")
    assert [found.path for found in box.glob("**/*.py", "/workspace/src").matches] == ["/workspace/src/a.py"]
    assert [found.path for found in box.ls("/workspace/src").matches] == ["/workspace/src/a.py"]
    grep = box.grep("a+b", "/workspace/src")
    assert [(found.path, found.line, found.text) for found in grep.matches] == [("/workspace/src/a.py", 2, "two a+b")]


def test_life(box: Sandbox) -> None:
    client = box._client
    box.write("kept", "kept")
    box.stop()
    assert client.get_sandbox_status(box.name).status == "stopped"
    box.start()
    assert box.read("/workspace/kept") == b"kept"
    assert box.name in [found.name for found in client.list_sandboxes()]
    with client.sandbox(name="python-once", timeout=60) as once:
        assert once.run("true").success
    try:
        client.get_sandbox("python-once")
    except ResourceNotFoundError:
        return
    raise AssertionError("no exception")


def test_refusals(box: Sandbox) -> None:
    calls: list[tuple[str, Callable[[], object]]] = [
        ("snapshots", lambda: box.capture_snapshot("shot")),
        ("persistent", lambda: box._client.create_sandbox(name="python-volatile", persistent=False)),
        ("run_config.user", lambda: box.run("true", run_config={"user": "root"})),
    ]
    for feature, call in calls:
        try:
            call()
        except SandboxClientError as refused:
            assert feature in str(refused) and "not supported" in str(refused), refused
        else:
            raise AssertionError(f"{feature}: no exception")


def test_async(_: Sandbox) -> None:
    async def use() -> None:
        client = AsyncSandboxClient(api_endpoint=ENDPOINT, api_key=API_KEY)
        async with client, await client.sandbox(name="python-async", timeout=60) as box:
            results = await asyncio.gather(*(box.run(f"echo {n}") for n in range(4)))
            assert [result.stdout for result in results] == [f"{n}\n" for n in range(4)]

    asyncio.run(use())


def main() -> int:
    tests: list[Callable[[Sandbox], None]] = [test for name, test in globals().items() if name.startswith("test_")]
    failures = 0
    client = SandboxClient(api_endpoint=ENDPOINT, api_key=API_KEY)
    config = {"env_vars": {"B": "of-the-box"}}
    with client.sandbox(name="python", timeout=60, run_config=config) as box:
        for test in tests:
            try:
                test(box)
                print("passed", test.__name__, flush=True)
            except Exception:
                failures += 1
                print("failed", test.__name__, traceback.format_exc(), flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())
