"""The sandbox backend of deepagents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from boxoffice import BoxofficeError, Client, FileError, InvalidRequestError, LimitError, Session, SessionEndedError
from boxoffice.types import SessionOptions
from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import BaseSandbox
from deepagents.backends.utils import EMPTY_OLD_STRING_ERROR
from typing_extensions import Unpack

from . import search, text
from .paths import InvalidPathError, join, sandbox_path, search_root
from .threads import ThreadSessions

T = TypeVar("T")
REFUSED = (InvalidPathError, FileError, InvalidRequestError, LimitError)
"""What the caller is answered with; everything else is raised."""
OUTPUT_BYTES = 16 * 1024 * 1024
SEARCH_SECONDS = 30
MERGED = "exec 2>&1\n"
"""Both streams in order of arrival: one pipe for both."""
_CODES = {
    "FILE_NOT_FOUND": "file_not_found",
    "NOT_A_DIRECTORY": "file_not_found",
    "PERMISSION_DENIED": "permission_denied",
    "READ_ONLY": "permission_denied",
    "IS_DIRECTORY": "is_directory",
}


class BoxofficeSandbox(BaseSandbox):
    """A Boxoffice session as a deepagents sandbox. Every file method uses the file endpoints; the image needs no Python.

    Args:
        session: The session, or what gives the session of the thread that runs (`for_threads`).
        timeout: Seconds of a command where `execute` is given none.
        env: Environment of every command.
        conventions: `protocol` is what deepagents 0.7 demands: `write` overwrites, and `glob` gives absolute paths of files, which its
            permission rules need. `standard-tests` is what langchain-tests 1.1 checks, which is older: `write` refuses a file that is
            there, and `glob` gives relative paths, of directories too.
    """

    def __init__(
        self,
        session: Session | ThreadSessions,
        *,
        timeout: int = 300,
        env: Mapping[str, str] | None = None,
        conventions: Literal["protocol", "standard-tests"] = "protocol",
    ) -> None:
        self._source = session
        self._timeout = timeout
        self._env = dict(env or {})
        self._older = conventions == "standard-tests"
        self._editing = threading.Lock()

    @classmethod
    def for_threads(cls, client: Client, **options: Unpack[SessionOptions]) -> BoxofficeSandbox:
        """One object for all threads of a graph: each call works on the sandbox of the thread that runs."""
        return cls(ThreadSessions(client, options))

    @property
    def id(self) -> str:
        """The session id; with `for_threads` a name for all."""
        return self._source.id if isinstance(self._source, Session) else "boxoffice-threads"

    def _on(self, work: Callable[[Session], T]) -> T:
        session = self._source if isinstance(self._source, Session) else self._source.current()
        try:
            return work(session)
        except BoxofficeError as error:
            # Where the token is due too, the broker answers first, and knows no such session any more.
            ended = isinstance(error, SessionEndedError) or error.is_code("BINDING_NOT_FOUND")
            if ended and isinstance(self._source, ThreadSessions):
                self._source.forget(session)
            raise

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command in `/workspace`. A timeout is exit code 124.

        Raises where nothing can go on: the session has ended, its key is refused, or the sandbox stays away.
        """
        try:
            result = self._on(
                lambda session: session.exec(
                    MERGED + command,
                    timeout=self._timeout if timeout is None else timeout,
                    env=self._env,
                    max_output_bytes=OUTPUT_BYTES,
                    output_keep="head",
                )
            )
        except REFUSED as error:
            # What the model has asked for cannot be run; a raise would end the whole run of the agent.
            return ExecuteResponse(output=str(error), exit_code=126, truncated=False)
        return ExecuteResponse(output=result.stdout + result.stderr, exit_code=result.exit_code, truncated=result.stdout_truncated)

    def ls(self, path: str) -> LsResult:
        """The entries of a directory."""
        try:
            base = sandbox_path(path)
            listing = self._on(lambda session: session.files.list(base, root="sandbox", depth=1))
        except REFUSED as error:
            return LsResult(error=f"Path '{path}': {_code_of(error)}")
        entries: list[FileInfo] = [
            {
                "path": join(path, search.below(entry.path, base)),
                "is_dir": entry.type == "directory",
                "size": entry.size,
                "modified_at": entry.mtime,
            }
            for entry in listing.entries
        ]
        return LsResult(entries=entries)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Lines of a text file, or a binary file in base64."""
        try:
            content = self._content(file_path)
        except REFUSED as error:
            return ReadResult(error=f"File '{file_path}': {_code_of(error)}")
        return text.page_of(content, file_path, offset, limit)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Writes a file whole or not at all; directories above it are made."""
        try:
            self._put(file_path, content.encode(), overwrite=not self._older)
        except (*REFUSED, UnicodeEncodeError) as error:
            if isinstance(error, FileError) and error.code == "FILE_EXISTS":
                return WriteResult(error=f"Error: File '{file_path}' already exists. Read and edit it, or write to a new path.")
            return WriteResult(error=f"Failed to write file '{file_path}': {_code_of(error)}")
        return WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replaces a string. Edits by one object wait for each other."""
        if not old_string:
            return EditResult(error=EMPTY_OLD_STRING_ERROR)
        try:
            with self._editing:
                content, result = text.edit_of(self._content(file_path), file_path, old_string, new_string, replace_all)
                if result.error is None:
                    self._put(file_path, content, overwrite=True)
        except (*REFUSED, UnicodeEncodeError) as error:
            code = _code_of(error)
            message = f"Error: File '{file_path}' not found" if code == "file_not_found" else f"Error editing file '{file_path}': {code}"
            return EditResult(error=message)
        return result

    def delete(self, file_path: str) -> DeleteResult:
        """Removes a file, or a directory with all in it."""
        try:
            path = sandbox_path(file_path)
            self._on(lambda session: session.files.delete(path, root="sandbox", recursive=True))
        except REFUSED as error:
            code = _code_of(error)
            return DeleteResult(
                error=f"Error: '{file_path}' not found" if code == "file_not_found" else f"Error deleting file '{file_path}': {code}"
            )
        return DeleteResult(path=file_path)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Files whose names match, by the pattern rules that all backends share."""
        shown = search_root(path)
        try:
            base, matches = sandbox_path(shown), search.glob_matcher(pattern)
            kind = "any" if self._older else "file"
            listing = self._on(lambda session: session.files.list(base, root="sandbox", kind=kind))
        except (*REFUSED, ValueError) as error:
            return GlobResult(error=f"Path '{shown}': {error if isinstance(error, ValueError) else _code_of(error)}")
        return search.found(listing, matches, base=base, shown=shown, relative=self._older)

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        """Lines that hold a literal string."""
        shown = search_root(path)
        try:
            base = sandbox_path(shown)
            matches = None if glob is None else search.glob_matcher(glob)
            command = search.grep_command(pattern, base, self.grep_exclude_dirs)
            result = self._on(
                lambda session: session.exec(command, timeout=SEARCH_SECONDS, max_output_bytes=OUTPUT_BYTES, output_keep="head")
            )
        except (*REFUSED, ValueError) as error:
            return GrepResult(error=f"Path '{shown}': {error if isinstance(error, ValueError) else _code_of(error)}")
        return search.grepped(result, matches, base=base, shown=shown, most=max_count)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files. What one fails with is in its answer."""
        return [self._upload(path, content) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files. What one fails with is in its answer."""
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            self._put(path, content, overwrite=True)
        except REFUSED as error:
            return FileUploadResponse(path=path, error=_code_of(error))
        return FileUploadResponse(path=path)

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self._content(path))
        except REFUSED as error:
            return FileDownloadResponse(path=path, error=_code_of(error))

    def _content(self, path: str) -> bytes:
        known = sandbox_path(path)
        return self._on(lambda session: session.files.read(known, root="sandbox"))

    def _put(self, path: str, content: bytes, *, overwrite: bool) -> None:
        known = sandbox_path(path)
        self._on(lambda session: session.files.write(known, content, root="sandbox", overwrite=overwrite))

    # The blocking client serves any number of threads; a thread for each call keeps the event loop free.

    async def als(self, path: str) -> LsResult:
        """Asynchronous `ls`."""
        return await asyncio.to_thread(self.ls, path)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Asynchronous `read`."""
        return await asyncio.to_thread(self.read, file_path, offset, limit)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Asynchronous `write`."""
        return await asyncio.to_thread(self.write, file_path, content)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Asynchronous `edit`."""
        return await asyncio.to_thread(self.edit, file_path, old_string, new_string, replace_all)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Asynchronous `glob`."""
        return await asyncio.to_thread(self.glob, pattern, path)

    async def agrep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        """Asynchronous `grep`."""
        return await asyncio.to_thread(self.grep, pattern, path, glob, max_count=max_count)


def _code_of(error: Exception) -> str:
    """One of deepagents' codes for a failed file operation, or what the server says."""
    if not isinstance(error, BoxofficeError):
        return "invalid_path"
    if isinstance(error, LimitError):
        return f"{error.code}: {error}"
    return _CODES.get(error.code, "invalid_path")
