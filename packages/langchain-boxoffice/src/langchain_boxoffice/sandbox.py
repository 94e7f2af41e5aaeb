"""The sandbox backend of deepagents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from boxoffice import (
    BoxofficeError,
    Client,
    ExecResult,
    FileError,
    InvalidRequestError,
    LimitError,
    Listing,
    Session,
    SessionEndedError,
    UnsupportedError,
)
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
from deepagents.backends.utils import EMPTY_OLD_STRING_ERROR
from typing_extensions import Unpack

from . import search, text
from .paths import InvalidPathError, join, place, sandbox_path, search_root
from .threaded import ThreadedSandbox
from .threads import ThreadSessions

T = TypeVar("T")
REFUSED = (InvalidPathError, FileError, InvalidRequestError, LimitError, UnsupportedError)
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


class BoxofficeSandbox(ThreadedSandbox):
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
            base, listing = self._list(path, depth=1)
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
            self._on(lambda session: session.files.delete(**place(session, path), recursive=True))
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
            matches = search.glob_matcher(pattern)
            base, listing = self._list(shown, kind="any" if self._older else "file")
        except (*REFUSED, ValueError) as error:
            return GlobResult(error=f"Path '{shown}': {error if isinstance(error, ValueError) else _code_of(error)}")
        return search.found(listing, matches, base=base, shown=shown, relative=self._older)

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        """Lines that hold a literal string."""
        shown = search_root(path)
        try:
            matches = None if glob is None else search.glob_matcher(glob)
            base, result = self._search(pattern, shown)
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

    def _list(self, path: str, *, kind: str = "any", depth: int | None = None) -> tuple[str, Listing]:
        """The entries below a directory, and what their paths begin with."""
        known = sandbox_path(path)

        def work(session: Session) -> tuple[str, Listing]:
            at = place(session, known)
            base = "" if at["path"] == "." else at["path"]
            return base, session.files.list(**at, kind=kind, depth=depth)

        return self._on(work)

    def _search(self, pattern: str, path: str) -> tuple[str, ExecResult]:
        """What grep finds, and what its paths begin with."""
        known = sandbox_path(path)

        def work(session: Session) -> tuple[str, ExecResult]:
            at = place(session, known)
            base = at["path"] if at["root"] == "sandbox" else f"./{at['path']}"
            command = search.grep_command(pattern, base, self.grep_exclude_dirs)
            return base, session.exec(command, timeout=SEARCH_SECONDS, max_output_bytes=OUTPUT_BYTES, output_keep="head")

        return self._on(work)

    def _content(self, path: str) -> bytes:
        known = sandbox_path(path)
        return self._on(lambda session: session.files.read(**place(session, known)))

    def _put(self, path: str, content: bytes, *, overwrite: bool) -> None:
        known = sandbox_path(path)
        self._on(lambda session: session.files.write(**place(session, known), content=content, overwrite=overwrite))


def _code_of(error: Exception) -> str:
    """One of deepagents' codes for a failed file operation, or what the server says."""
    if not isinstance(error, BoxofficeError):
        return "invalid_path"
    if isinstance(error, (LimitError, UnsupportedError)):
        return f"{error.code}: {error}"
    return _CODES.get(error.code, "invalid_path")
