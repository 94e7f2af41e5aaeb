"""A process that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType

from typing_extensions import Self

from .._wire.stream import ProcessStream
from ..errors import OutputGapError
from ..types import Exit, Output
from .driver import Driver

WRITE_BYTES = 64 * 1024


class AsyncRun:
    """A process that runs. Iterate over it for its output; `exit` is there when the iteration has ended.

    One task may read while another writes. Where nobody reads, the process stops after 768 KiB.
    """

    def __init__(self, driver: Driver, stream: ProcessStream) -> None:
        self._driver, self._stream = driver, stream
        self._pumping = asyncio.Lock()
        self._writing = asyncio.Lock()

    @property
    def id(self) -> str:
        """The exec id, or the shell id."""
        return self._stream.id

    @property
    def pid(self) -> int | None:
        """The process id in the sandbox; None before it runs, and where it could not be started."""
        return None if self._stream.ready is None else self._stream.ready.get("pid")

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while that is not known."""
        return self._stream.exit

    async def __aiter__(self) -> AsyncIterator[Output]:
        """The output, in order and without loss. Raises `OutputGapError` for bytes that are kept no longer; reading goes on after it."""
        while True:
            while self._stream.queue:
                item = self._stream.queue.popleft()
                await self._driver.run(self._stream.taken(item))
                if isinstance(item, Output):
                    yield item
            if self._stream.exit is not None and not self._stream.queue:
                return
            await self._pump(lambda: bool(self._stream.queue))

    async def wait(self) -> Exit:
        """Reads the rest of the output away, gaps too, and gives how the process ended."""
        while self._stream.exit is None or self._stream.queue:
            with suppress(OutputGapError):
                async for _ in self:
                    pass
        assert self._stream.exit is not None
        return self._stream.exit

    async def write(self, data: str | bytes) -> None:
        """Writes to stdin, or types into a shell. Waits while the process takes none."""
        content = data.encode() if isinstance(data, str) else data
        for start in range(0, len(content), WRITE_BYTES):
            async with self._writing:
                await self._driver.run(self._stream.write(content[start : start + WRITE_BYTES]))
            while not self._stream.has_room:
                await self._pump(lambda: self._stream.has_room)

    async def end_stdin(self) -> None:
        """Ends stdin."""
        async with self._writing:
            await self._driver.run(self._stream.end_stdin())

    async def signal(self, name: str) -> None:
        """Sends a signal, as `TERM`. A process that has ended is fine."""
        await self._driver.run(self._stream.signal(name))

    async def resize(self, cols: int, rows: int, *, claim: bool = False) -> None:
        """Tells the size of a shell's terminal."""
        await self._driver.run(self._stream.control({"type": "resize", "cols": cols, "rows": rows, "claim": claim}))

    async def kill(self) -> Exit:
        """Ends the process, and gives how it ended."""
        await self.signal("KILL")
        return await self.wait()

    async def detach(self) -> None:
        """Leaves the process, which goes on for 30 s, or with `detach` without end; a shell 300 s."""
        await self._driver.run(self._stream.detach())

    async def open(self) -> Self:
        """Starts it now. Without it, the first other call does."""
        await self._pump(lambda: self._stream.ready is not None)
        return self

    async def _pump(self, done: Callable[[], bool]) -> None:
        async with self._pumping:
            if done():
                return
            if self._stream.is_away:
                # A writer waits, so that nothing it sends comes between what is sent again.
                async with self._writing:
                    try:
                        await self._driver.run(self._stream.connect())
                    except BaseException:
                        await self._driver.run(self._stream.hang_up())
                        raise
            else:
                await self._driver.run(self._stream.pump())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.detach()
