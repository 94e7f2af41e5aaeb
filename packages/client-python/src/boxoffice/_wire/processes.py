"""Managed processes over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from urllib.parse import quote

from ..errors import InvalidResponseError
from ..types import ProcessInfo, Restart
from .effects import Op
from .plane import Plane

STOP_SECONDS = 5
"""A process that ignores TERM is ended with KILL after so long."""


def start(
    plane: Plane,
    process_id: str,
    command: str,
    args: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str] | None,
    replace: bool,
    restart: Restart,
    max_restarts: int | None,
) -> Op[ProcessInfo]:
    """Starts a program. Not repeated once it may have been done: a second one would replace the first, or conflict with it."""
    sent = {
        "process_id": process_id,
        "command": command,
        "args": list(args),
        "cwd": cwd,
        "env": None if env is None else dict(env),
        "replace": replace,
        "restart": restart,
        "max_restarts": max_restarts,
    }
    body = {name: value for name, value in sent.items() if value is not None}
    wait = STOP_SECONDS if replace else 0
    return _info((yield from plane.call("POST", "/processes", body=body, busy=False, repeat=False, wait=wait)).json())


def listed(plane: Plane) -> Op[list[ProcessInfo]]:
    """All that run, and those that ended less than 300 s ago."""
    answer = (yield from plane.call("GET", "/processes")).json()
    if not isinstance(answer, dict) or not isinstance(answer.get("processes"), list):
        raise InvalidResponseError("the sandbox gave a list that is not in the contract")
    return [_info(entry) for entry in answer["processes"]]


def known(plane: Plane, process_id: str) -> Op[ProcessInfo]:
    """One of them."""
    return _info((yield from plane.call("GET", _path(process_id))).json())


def stop(plane: Plane, process_id: str) -> Op[None]:
    """Ends it. One that is not there is fine."""
    yield from plane.call("DELETE", _path(process_id), wait=STOP_SECONDS)


def _path(process_id: str) -> str:
    return f"/processes/{quote(process_id, safe='')}"


def _info(answer: Any) -> ProcessInfo:
    try:
        told = {field.name: answer[field.name] for field in fields(ProcessInfo)}
        for name in ("started_at", "exited_at"):
            if told[name] is not None:
                told[name] = datetime.fromisoformat(told[name].replace("Z", "+00:00"))
        return ProcessInfo(**told)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidResponseError("the sandbox gave a process that is not in the contract") from error
