"""The files of a sandbox."""

from __future__ import annotations

from .._wire import files
from .._wire.plane import Plane
from ..types import FileEntry, Listing, Root
from .driver import Driver


class AsyncFiles:
    """The files of a sandbox. Paths are relative to `/workspace`, or with `root="sandbox"` absolute in the sandbox."""

    def __init__(self, driver: Driver, plane: Plane) -> None:
        self._driver, self._plane = driver, plane

    async def read(self, path: str, *, root: Root = "workspace", request_timeout: float | None = None) -> bytes:
        """The bytes of a file."""
        return await self._driver.within(request_timeout).run(files.read(self._plane, path, root))

    async def read_text(self, path: str, *, root: Root = "workspace", request_timeout: float | None = None) -> str:
        """A file as UTF-8."""
        return (await self.read(path, root=root, request_timeout=request_timeout)).decode()

    async def write(
        self,
        path: str,
        content: str | bytes,
        *,
        root: Root = "workspace",
        overwrite: bool = True,
        mode: str | None = None,
        request_timeout: float | None = None,
    ) -> None:
        """Writes a file whole or not at all; directories above it are made. `mode` is octal, as `0755`."""
        data = content.encode() if isinstance(content, str) else content
        await self._driver.within(request_timeout).run(files.write(self._plane, path, data, root, overwrite, mode))

    async def stat(self, path: str, *, root: Root = "workspace", follow: bool = False, request_timeout: float | None = None) -> FileEntry:
        """One entry; with `follow` what a link points to."""
        return await self._driver.within(request_timeout).run(files.stat(self._plane, path, root, follow))

    async def exists(self, path: str, *, root: Root = "workspace", request_timeout: float | None = None) -> bool:
        """Whether there is something."""
        return await self._driver.within(request_timeout).run(files.exists(self._plane, path, root))

    async def list(
        self,
        path: str = ".",
        *,
        root: Root = "workspace",
        pattern: str | None = None,
        depth: int | None = None,
        kind: str = "any",
        request_timeout: float | None = None,
    ) -> Listing:
        """Entries below a directory. `kind` is `any` or `file`; `depth` 1 is the directory alone."""
        return await self._driver.within(request_timeout).run(files.listing(self._plane, path, root, pattern, depth, kind))

    async def mkdir(self, path: str, *, root: Root = "workspace", request_timeout: float | None = None) -> bool:
        """Makes a directory and those above it. False: it was there."""
        return await self._driver.within(request_timeout).run(files.mkdir(self._plane, path, root))

    async def move(
        self, source: str, target: str, *, root: Root = "workspace", overwrite: bool = False, request_timeout: float | None = None
    ) -> None:
        """Renames."""
        await self._driver.within(request_timeout).run(files.move(self._plane, source, target, root, overwrite))

    async def delete(self, path: str, *, root: Root = "workspace", recursive: bool = False, request_timeout: float | None = None) -> None:
        """Removes a file, a link, or with `recursive` a directory with all in it."""
        await self._driver.within(request_timeout).run(files.delete(self._plane, path, root, recursive))

    async def upload_archive(self, path: str, archive: bytes, *, root: Root = "workspace", request_timeout: float | None = None) -> int:
        """Unpacks a tar archive below `path`, and gives how many entries it had.

        An entry that would leave `path` ends it with a `FileError`; entries before it stay.
        """
        return await self._driver.within(request_timeout).run(files.unpack(self._plane, path, archive, root))

    async def download_archive(self, path: str = ".", *, root: Root = "workspace", request_timeout: float | None = None) -> bytes:
        """A directory as a tar archive. Links stay links; special files are left out."""
        return await self._driver.within(request_timeout).run(files.pack(self._plane, path, root))
