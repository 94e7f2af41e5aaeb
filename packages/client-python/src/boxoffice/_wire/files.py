"""Files over HTTP."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..errors import BoxofficeError, InvalidResponseError
from ..types import FileEntry, Listing, Root
from .effects import Op, Response
from .plane import Plane, means

_PAGE = "10000"


def _query(path: str, root: Root, **more: str | None) -> dict[str, str]:
    query = {"path": path, **({"root": root} if root != "workspace" else {})}
    return {**query, **{name: value for name, value in more.items() if value is not None}}


def read(plane: Plane, path: str, root: Root) -> Op[bytes]:
    """The bytes of a file."""
    response: Response = yield from plane.call("GET", "/files/download", query=_query(path, root))
    return response.body


def write(plane: Plane, path: str, content: bytes, root: Root, overwrite: bool, mode: str | None) -> Op[None]:
    """Writes a file whole or not at all; directories above it are made. Without `overwrite`, a second try may meet its own file."""
    query = _query(path, root, overwrite=None if overwrite else "false", mode=mode)
    headers = {"content-type": "application/octet-stream"}
    yield from plane.call("POST", "/files/upload", query=query, content=content, headers=headers, repeat=overwrite)


def stat(plane: Plane, path: str, root: Root, follow: bool) -> Op[FileEntry]:
    """One entry."""
    response = yield from plane.call("GET", "/files/stat", query=_query(path, root, follow="true" if follow else None))
    return _entry(response.json())


def exists(plane: Plane, path: str, root: Root) -> Op[bool]:
    """Whether there is something, a broken link included."""
    try:
        yield from stat(plane, path, root, False)
    except BoxofficeError as error:
        if error.is_code("FILE_NOT_FOUND") or error.is_code("NOT_A_DIRECTORY"):
            return False
        raise
    return True


def listing(plane: Plane, path: str, root: Root, pattern: str | None, depth: int | None, kind: str) -> Op[Listing]:
    """Every page of a listing."""
    entries: list[FileEntry] = []
    cursor: str | None = None
    while True:
        query = _query(path, root, pattern=pattern, depth=None if depth is None else str(depth), type=kind, limit=_PAGE, cursor=cursor)
        answer = (yield from plane.call("GET", "/files", query=query)).json()
        if not isinstance(answer, dict) or not isinstance(answer.get("files"), list):
            raise InvalidResponseError("the sandbox gave a listing that is not in the contract")
        entries.extend(_entry(entry) for entry in answer["files"])
        cursor = answer.get("next_cursor")
        if cursor is None:
            return Listing(entries, truncated=bool(answer.get("truncated")))


def mkdir(plane: Plane, path: str, root: Root) -> Op[bool]:
    """Makes a directory and those above it. False: it was there."""
    response = yield from plane.call("POST", "/files/mkdir", query=_query_root(root), body={"path": path})
    return bool((response.json() or {}).get("created"))


def move(plane: Plane, source: str, target: str, root: Root, overwrite: bool) -> Op[None]:
    """Renames."""

    def settled(error: BoxofficeError) -> Op[bool]:
        return error.is_code("FILE_NOT_FOUND") and (yield from exists(plane, target, root))

    body = {"from": source, "to": target, "overwrite": overwrite}
    yield from plane.call("POST", "/files/move", query=_query_root(root), body=body, settled=settled)


def delete(plane: Plane, path: str, root: Root, recursive: bool) -> Op[None]:
    """Removes a file, a link or a directory."""
    query = _query(path, root, recursive="true" if recursive else None)
    yield from plane.call("DELETE", "/files", query=query, settled=means("FILE_NOT_FOUND"))


def unpack(plane: Plane, path: str, archive: bytes, root: Root) -> Op[int]:
    """Unpacks a tar archive. The same archive unpacked again is the same files."""
    query = _query(path, root, archive="tar")
    headers = {"content-type": "application/x-tar"}
    answer = (yield from plane.call("POST", "/files/upload", query=query, content=archive, headers=headers)).json()
    if not isinstance(answer, dict) or not isinstance(answer.get("files"), int):
        raise InvalidResponseError("the sandbox gave an answer to an archive that is not in the contract")
    return int(answer["files"])


def pack(plane: Plane, path: str, root: Root) -> Op[bytes]:
    """A directory as a tar archive; after a dropped connection from the beginning."""
    response: Response = yield from plane.call("GET", "/files/download", query=_query(path, root, archive="tar"))
    return response.body


def _query_root(root: Root) -> dict[str, str]:
    return {"root": root} if root != "workspace" else {}


def _entry(answer: Any) -> FileEntry:
    names = [field.name for field in fields(FileEntry)]
    if not isinstance(answer, dict) or not all(name in answer for name in names):
        raise InvalidResponseError("the sandbox gave an entry that is not in the contract")
    return FileEntry(**{name: answer[name] for name in names})
