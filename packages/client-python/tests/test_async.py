"""The asynchronous client: what the blocking one does, in short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.protocol import State

from boxoffice import AsyncSession, FileError
from boxoffice._async.driver import Driver
from boxoffice._wire.effects import Effect, Receive


async def test_exec_and_files(async_session: AsyncSession) -> None:
    await async_session.files.write("a.txt", "text")
    assert (await async_session.exec("cat a.txt")).check().stdout == "text"
    assert [entry.path for entry in (await async_session.files.list()).entries] == ["a.txt"]
    with pytest.raises(FileError):
        await async_session.files.read("none")


async def test_many_at_once(async_session: AsyncSession) -> None:
    results = await asyncio.gather(*(async_session.exec(f"echo {number}") for number in range(50)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(50)]


async def test_stdin_while_another_task_reads(async_session: AsyncSession, control: Callable[[str], None]) -> None:
    content = bytes(range(256)) * 4096 * 3
    run = await async_session.start("cat")

    async def feed() -> None:
        await run.write(content)
        await asyncio.to_thread(control, "cut")
        await run.end_stdin()

    feeding = asyncio.create_task(feed())
    received = b"".join([piece.data async for piece in run])
    await feeding
    assert received == content


async def test_shell(async_session: AsyncSession) -> None:
    shell = await async_session.shell()
    await shell.write("echo $((6 * 7))-done; exit 5\n")
    assert b"42-done" in b"".join([piece.data async for piece in shell])
    assert (await shell.wait()).exit_code == 5


class Holding(Driver):
    """Waits for its first message without end."""

    def __init__(self) -> None:
        super().__init__()
        self.holds: asyncio.Future[ClientConnection] = asyncio.get_running_loop().create_future()

    async def _perform(self, effect: Effect) -> object:
        if isinstance(effect, Receive) and not self.holds.done():
            self.holds.set_result(effect.socket)
            await asyncio.Event().wait()
        outcome: object = await super()._perform(effect)
        return outcome


async def test_a_start_that_is_cancelled_leaves_no_connection(async_session: AsyncSession) -> None:
    driver = Holding()
    starting = asyncio.create_task(AsyncSession(driver, async_session._plane).start("cat"))
    connection = await driver.holds
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert connection.state is State.CLOSED
    await driver.http.aclose()


async def test_events(async_session: AsyncSession) -> None:
    await async_session.exec("exit 3")
    await async_session.release()
    events = [event async for event in async_session.events()]
    assert [event.data["exit_code"] for event in events if event.type == "exec.exit"] == [3]
    assert events[-1].type == "released"


async def test_kill(async_session: AsyncSession) -> None:
    run = await async_session.start("sleep 600")
    assert (await run.kill()).exit_code == 137
