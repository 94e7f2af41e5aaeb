"""Commands over HTTP."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..errors import InvalidResponseError
from ..types import Command, CommandOptions, ExecOptions, ExecResult, Exit
from .effects import Op
from .plane import Plane

DEFAULT_SECONDS = 60
_NAMES = {"cwd", "env", "shell", "timeout", "exec_id"}
_EXEC_NAMES = _NAMES | {"stdin", "max_output_bytes", "output_keep"}
START_NAMES = _NAMES | {"detach"}


def new_exec_id() -> str:
    """An id that no other run has."""
    return uuid.uuid4().hex


def command_fields(command: Command, options: CommandOptions, exec_id: str) -> dict[str, Any]:
    """The fields that a request and a `start` frame share. None is left out."""
    named = {"command": command} if isinstance(command, str) else {"argv": list(command)}
    sent = {
        **named,
        "cwd": options.get("cwd"),
        "env": None if "env" not in options else dict(options["env"]),
        "shell": options.get("shell"),
        "timeout_seconds": options.get("timeout"),
        "exec_id": exec_id,
    }
    return {name: value for name, value in sent.items() if value is not None}


def refuse_unknown(function: str, options: Mapping[str, Any], names: set[str]) -> None:
    """A misspelt option must not be ignored."""
    unknown = sorted(set(options) - names)
    if unknown:
        raise TypeError(f"{function} has no option {', '.join(unknown)}; it has {', '.join(sorted(names | {'request_timeout'}))}")


def run(plane: Plane, command: Command, options: ExecOptions) -> Op[ExecResult]:
    """Runs a command to its end. The id makes a repeated request attach to the same run."""
    refuse_unknown("exec", options, _EXEC_NAMES)
    body = command_fields(command, options, options.get("exec_id") or new_exec_id())
    stdin = options.get("stdin")
    if isinstance(stdin, bytes):
        body["stdin_base64"] = base64.b64encode(stdin).decode()
    elif stdin is not None:
        body["stdin"] = stdin
    for name in ("max_output_bytes", "output_keep"):
        if name in options:
            body[name] = options[name]
    # The answer comes with the end of the command.
    seconds = options.get("timeout", DEFAULT_SECONDS)
    response = yield from plane.call("POST", "/exec", body=body, wait=seconds or None)
    result: ExecResult = result_of(response.json(), ExecResult)
    return result


def result_of(answer: Any, kind: type[Exit]) -> Any:
    """An `Exit` or `ExecResult` from what the wire says; fields of a newer server are left out."""
    if not isinstance(answer, dict) or not isinstance(answer.get("exit_code"), int) or not isinstance(answer.get("reason"), str):
        raise InvalidResponseError("the sandbox gave an answer that is not in the contract")
    return kind(**{field.name: answer[field.name] for field in fields(kind) if field.name in answer})
