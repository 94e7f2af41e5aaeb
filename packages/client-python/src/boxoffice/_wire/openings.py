"""How streams begin: a command, an attach, a shell."""

from __future__ import annotations

from typing import Any

from ..types import AttachMode, Command, SessionOptions, StartOptions
from .commands import START_NAMES, command_fields, new_exec_id, refuse_unknown
from .plane import Plane
from .stream import ProcessStream

SESSION_NAMES = set(SessionOptions.__optional_keys__)


def started(plane: Plane, command: Command, options: StartOptions) -> ProcessStream:
    """A command that is not started before the first operation on it."""
    refuse_unknown("start", options, START_NAMES)
    exec_id = options.get("exec_id") or new_exec_id()
    start = command_fields(command, options, exec_id)
    if options.get("detach"):
        start["detach"] = True
    return ProcessStream(plane, "/exec/ws", exec_id, start, {"mode": "takeover"})


def attached(plane: Plane, exec_id: str, stdout_offset: int | str, stderr_offset: int | str, mode: AttachMode) -> ProcessStream:
    """A command that runs, or ended less than 10 minutes ago."""
    start: dict[str, Any] = {"attach": exec_id, "mode": mode, "stdout_offset": stdout_offset, "stderr_offset": stderr_offset}
    return ProcessStream(plane, "/exec/ws", exec_id, start, {"mode": mode})


def shell(plane: Plane, shell_id: str | None, cols: int, rows: int, cwd: str | None, offset: int, mode: AttachMode) -> ProcessStream:
    """A terminal, or one that is there under this id."""
    shell_id = shell_id or new_exec_id()
    start: dict[str, Any] = {"shell_id": shell_id, "cols": cols, "rows": rows, "mode": mode, "stdout_offset": offset}
    if cwd is not None:
        start["cwd"] = cwd
    return ProcessStream(plane, "/shell/ws", shell_id, start, {"mode": mode})
