"""Which path of the sandbox an agent means (contract 7.1)."""

from __future__ import annotations

import posixpath
from typing import TypedDict

from boxoffice import Session
from boxoffice.types import Root

WORKSPACE = "/workspace"
_SYSTEM = frozenset(
    [
        *("app", "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc", "root"),
        *("run", "sbin", "srv", "sys", "tmp", "usr", "var", "workspace"),
    ]
)


class InvalidPathError(ValueError):
    """A path that is not absolute, or that no file can have."""


def sandbox_path(path: str) -> str:
    """The path in the sandbox. `/workspace`, `/app`, `/tmp` and system directories mean themselves; others lie below the workspace.

    An agent invents directories such as `/large_tool_results`, and nobody may write to `/`.
    """
    if not path.startswith("/") or "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
        raise InvalidPathError(path)
    normal = "/" + posixpath.normpath(path).lstrip("/")
    first = normal.split("/")[1]
    return normal if first in _SYSTEM or first == "" else WORKSPACE + normal


class Place(TypedDict):
    """What the methods of `session.files` take."""

    path: str
    root: Root


def place(session: Session, path: str) -> Place:
    """Where a path of `sandbox_path` lies. Without isolation a sandbox has no file system of its own, but a workspace it has."""
    first, _, below = path.lstrip("/").partition("/")
    binding = session.info.get("binding")
    if isinstance(binding, dict) and binding.get("isolation") == "none" and first in ("workspace", "app"):
        return {"path": below or ".", "root": "workspace"}
    return {"path": path, "root": "sandbox"}


def search_root(path: str | None) -> str:
    """Where a search begins. All of `/` is the workspace: a search of the system would end in `/proc`."""
    return WORKSPACE if path in (None, "", ".", "/") else str(path)


def join(base: str, name: str) -> str:
    """A name below a base, as the caller wrote the base."""
    return f"{base.rstrip('/')}/{name}"
