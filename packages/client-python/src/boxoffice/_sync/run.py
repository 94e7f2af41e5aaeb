"""A process that runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType

from typing_extensions import Self

from .._wire.stream import ProcessStream
from ..errors import OutputGapError
from ..types import Exit, Output
from .driver import Driver

WRITE_BYTES = 64 * 1024


class Run:
    """A process that runs. Iterate over it for its output; `exit` is there when the iteration has ended.

    One thread may read while another writes. Where nobody reads, the process stops after 768 KiB.
    """

    def __init__(self, driver: Driver, stream: ProcessStream) -> None:
        self._driver, self._stream = driver, stream
        self._pumping = threading.Lock()
        self._writing = threading.Lock()

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

    def __iter__(self) -> Iterator[Output]:
        """The output, in order and without loss. Raises `OutputGapError` for bytes that are kept no longer; reading goes on after it."""
        while True:
            while self._stream.queue:
                item = self._stream.queue.popleft()
                self._driver.run(self._stream.taken(item))
                if isinstance(item, Output):
                    yield item
            if self._stream.exit is not None and not self._stream.queue:
                return
            self._pump(lambda: bool(self._stream.queue))

    def wait(self) -> Exit:
        """Reads the rest of the output away, gaps too, and gives how the process ended."""
        while self._stream.exit is None or self._stream.queue:
            with suppress(OutputGapError):
                for _ in self:
                    pass
        assert self._stream.exit is not None
        return self._stream.exit

    def write(self, data: str | bytes) -> None:
        """Writes to stdin, or types into a shell. Waits while the process takes none."""
        content = data.encode() if isinstance(data, str) else data
        for start in range(0, len(content), WRITE_BYTES):
            with self._writing:
                self._driver.run(self._stream.write(content[start : start + WRITE_BYTES]))
            while not self._stream.has_room:
                self._pump(lambda: self._stream.has_room)

    def end_stdin(self) -> None:
        """Ends stdin."""
        with self._writing:
            self._driver.run(self._stream.end_stdin())

    def signal(self, name: str) -> None:
        """Sends a signal, as `TERM`. A process that has ended is fine."""
        self._driver.run(self._stream.signal(name))

    def resize(self, cols: int, rows: int, *, claim: bool = False) -> None:
        """Tells the size of a shell's terminal."""
        self._driver.run(self._stream.control({"type": "resize", "cols": cols, "rows": rows, "claim": claim}))

    def kill(self) -> Exit:
        """Ends the process, and gives how it ended."""
        self.signal("KILL")
        return self.wait()

    def detach(self) -> None:
        """Leaves the process, which goes on for 30 s, or with `detach` without end; a shell 300 s."""
        self._driver.run(self._stream.detach())

    def open(self) -> Self:
        """Starts it now. Without it, the first other call does."""
        self._pump(lambda: self._stream.ready is not None)
        return self

    def _pump(self, done: Callable[[], bool]) -> None:
        with self._pumping:
            if done():
                return
            if self._stream.is_away:
                # A writer waits, so that nothing it sends comes between what is sent again.
                with self._writing:
                    try:
                        self._driver.run(self._stream.connect())
                    except BaseException:
                        self._driver.run(self._stream.hang_up())
                        raise
            else:
                self._driver.run(self._stream.pump())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.detach()
