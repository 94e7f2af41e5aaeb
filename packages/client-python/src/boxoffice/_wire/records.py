"""Commands and shells by their ids."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from ..errors import BoxofficeError, InvalidResponseError
from ..types import CommandInfo, CommandOutput, ExecResult, Stream
from .commands import result_of
from .effects import Op
from .plane import Plane, means


def listed(plane: Plane, state: str | None) -> Op[list[CommandInfo]]:
    """What runs, and what ended lately."""
    response = yield from plane.call("GET", "/execs", query={} if state is None else {"state": state})
    answer = response.json()
    if not isinstance(answer, dict) or not isinstance(answer.get("execs"), list):
        raise InvalidResponseError("the sandbox gave a list that is not in the contract", status=response.status)
    return [_info(entry) for entry in answer["execs"]]


def known(plane: Plane, exec_id: str) -> Op[CommandInfo]:
    """One of them, with its result once that is known."""
    return _info((yield from plane.call("GET", _path(exec_id))).json())


def output(plane: Plane, exec_id: str, stream: Stream, offset: int, limit: int | None, wait: float) -> Op[CommandOutput]:
    """Bytes from an offset; waits up to `wait` seconds for the first one."""
    query = {"stream": stream, "offset": str(offset), **({} if limit is None else {"limit": str(limit)})}
    if wait:
        query["wait"] = f"{wait:g}"
    response = yield from plane.call("GET", f"{_path(exec_id)}/output", query=query, wait=wait)
    try:
        first, following, oldest = (int(response.headers[f"x-stream-{name}"]) for name in ("offset", "next-offset", "oldest-offset"))
    except (KeyError, ValueError) as error:
        raise InvalidResponseError("the sandbox gave output without its offsets", status=response.status) from error
    return CommandOutput(response.body, first, following, oldest, response.headers.get("x-stream-eof") == "true")


def send_signal(plane: Plane, exec_id: str, name: str, grace_seconds: float | None = None) -> Op[bool]:
    """Sends a signal to the process group. False: it had ended before. After a lost answer it may have ended by the first request."""
    body = {"signal": name, **({} if grace_seconds is None else {"kill_after_seconds": grace_seconds})}
    try:
        yield from plane.call("POST", f"{_path(exec_id)}/signal", body=body, settled=means("PROCESS_NOT_RUNNING"))
    except BoxofficeError as error:
        if error.is_code("PROCESS_NOT_RUNNING"):
            return False
        raise
    return True


def killed(plane: Plane, exec_id: str, grace_seconds: float) -> Op[bool]:
    """TERM, and KILL after `grace_seconds`."""
    return (yield from (send_signal(plane, exec_id, "TERM", grace_seconds) if grace_seconds else send_signal(plane, exec_id, "KILL")))


def _path(exec_id: str) -> str:
    return f"/execs/{quote(exec_id, safe='')}"


def _info(answer: Any) -> CommandInfo:
    try:
        told = {name: answer[name] for name in ("exec_id", "state", "kind", "command", "exit_code", "reason", "attached")}
        ended_at = answer["ended_at"]
        return CommandInfo(
            **told,
            started_at=_time(answer["started_at"]),
            ended_at=None if ended_at is None else _time(ended_at),
            result=result_of(answer, ExecResult) if "stdout" in answer and answer["exit_code"] is not None else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponseError("the sandbox gave a command that is not in the contract") from error


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
