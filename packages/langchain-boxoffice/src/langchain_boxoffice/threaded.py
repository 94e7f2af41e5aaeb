"""The asynchronous methods of a sandbox."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import BaseSandbox

P = ParamSpec("P")
T = TypeVar("T")
MOST_CALLS = 256
_THREADS = ThreadPoolExecutor(MOST_CALLS, thread_name_prefix="boxoffice")
"""The default pool of asyncio has 6 threads on 2 cores: 6 long commands would hold up every file call, and what else uses it."""


async def in_thread(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """`asyncio.to_thread` with threads of our own. The run's context goes along, which names its thread."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, lambda: context.run(call, *args, **options))


class ThreadedSandbox(BaseSandbox):
    """Runs each asynchronous call in a thread: the blocking client serves any number of them."""

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:  # noqa: ASYNC109
        """Asynchronous `execute`."""
        return await in_thread(self.execute, command, timeout=timeout)

    async def als(self, path: str) -> LsResult:
        """Asynchronous `ls`."""
        return await in_thread(self.ls, path)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Asynchronous `read`."""
        return await in_thread(self.read, file_path, offset, limit)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Asynchronous `write`."""
        return await in_thread(self.write, file_path, content)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Asynchronous `edit`."""
        return await in_thread(self.edit, file_path, old_string, new_string, replace_all)

    async def adelete(self, file_path: str) -> DeleteResult:
        """Asynchronous `delete`."""
        return await in_thread(self.delete, file_path)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Asynchronous `glob`."""
        return await in_thread(self.glob, pattern, path)

    async def agrep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        """Asynchronous `grep`."""
        return await in_thread(self.grep, pattern, path, glob, max_count=max_count)

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Asynchronous `upload_files`."""
        return await in_thread(self.upload_files, files)

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Asynchronous `download_files`."""
        return await in_thread(self.download_files, paths)
