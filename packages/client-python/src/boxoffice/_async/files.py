"""The files of a sandbox."""

from __future__ import annotations

from .._wire import files
from .._wire.plane import Plane
from ..types import FileEntry, Listing, Root
from .driver import Driver


class AsyncFiles:
    """The files of a sandbox. Paths are relative to `/workspace`, or with `root="sandbox"` absolute in the sandbox."""

    def __init__(self, driver: Driver, plane: Plane) -> None:
        self._run, self._plane = driver.run, plane

    async def read(self, path: str, *, root: Root = "workspace") -> bytes:
        """The bytes of a file."""
        return await self._run(files.read(self._plane, path, root))

    async def read_text(self, path: str, *, root: Root = "workspace") -> str:
        """A file as UTF-8."""
        return (await self.read(path, root=root)).decode()

    async def write(
        self, path: str, content: str | bytes, *, root: Root = "workspace", overwrite: bool = True, mode: str | None = None
    ) -> None:
        """Writes a file whole or not at all; directories above it are made. `mode` is octal, as `0755`."""
        data = content.encode() if isinstance(content, str) else content
        await self._run(files.write(self._plane, path, data, root, overwrite, mode))

    async def stat(self, path: str, *, root: Root = "workspace", follow: bool = False) -> FileEntry:
        """One entry; with `follow` what a link points to."""
        return await self._run(files.stat(self._plane, path, root, follow))

    async def exists(self, path: str, *, root: Root = "workspace") -> bool:
        """Whether there is something."""
        return await self._run(files.exists(self._plane, path, root))

    async def list(
        self, path: str = ".", *, root: Root = "workspace", pattern: str | None = None, depth: int | None = None, kind: str = "any"
    ) -> Listing:
        """Entries below a directory. `kind` is `any` or `file`; `depth` 1 is the directory alone."""
        return await self._run(files.listing(self._plane, path, root, pattern, depth, kind))

    async def mkdir(self, path: str, *, root: Root = "workspace") -> bool:
        """Makes a directory and those above it. False: it was there."""
        return await self._run(files.mkdir(self._plane, path, root))

    async def move(self, source: str, target: str, *, root: Root = "workspace", overwrite: bool = False) -> None:
        """Renames."""
        await self._run(files.move(self._plane, source, target, root, overwrite))

    async def delete(self, path: str, *, root: Root = "workspace", recursive: bool = False) -> None:
        """Removes a file, a link, or with `recursive` a directory with all in it."""
        await self._run(files.delete(self._plane, path, root, recursive))
