"""What the client takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from .errors import CommandError

Command = str | Sequence[str]
"""A string is given to the sandbox's shell; a sequence is run as it is."""
Root = Literal["workspace", "sandbox"]
"""`workspace`: paths are relative to `/workspace`. `sandbox`: they are absolute in the sandbox's own file system."""
Stream = Literal["stdout", "stderr"]
Restart = Literal["never", "on_failure", "always"]
Keep = Literal["head_tail", "head", "tail"]
AttachMode = Literal["takeover", "mirror", "viewer"]


class SessionOptions(TypedDict, total=False):
    """What `session()` sends with the thread; see `docs/protocol/sessions.md`."""

    mode: Literal["ensure", "get", "create_only", "attach_only"]
    profile: str
    relay: Literal["auto", "always", "never"]
    capabilities: Sequence[str]
    labels: Mapping[str, str]
    actor: Mapping[str, str]
    wait_seconds: int
    """How long one request waits for a sandbox that starts; default 30."""


class CommandOptions(TypedDict, total=False):
    """What every command takes."""

    cwd: str
    """Relative to `/workspace` (the default), or absolute in the sandbox."""
    env: Mapping[str, str]
    shell: str
    timeout: float
    """Seconds; 0 is the longest that the profile allows. Default of `exec` 60. The command then ends with exit code 124."""
    exec_id: str
    """Names this run: the same id with the same command never runs twice."""


class ExecOptions(CommandOptions, total=False):
    """What `exec` takes beside."""

    stdin: str | bytes
    max_output_bytes: int
    """Of each stream; default 1 MiB, at most 16 MiB."""
    output_keep: Keep


class StartOptions(CommandOptions, total=False):
    """What `start` takes beside."""

    detach: bool
    """Lets the command go on without a client."""


@dataclass(frozen=True)
class Exit:
    """How a process ended. `exit_code` is 124 after a timeout and 128 + n after signal n."""

    exit_code: int
    reason: str
    signal: str | None = None
    timed_out: bool = False
    oom_killed: bool = False
    kill_cause: str | None = None
    spawn_error: Mapping[str, Any] | None = None
    duration_ms: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0


@dataclass(frozen=True)
class ExecResult(Exit):
    """A command that ran to its end, with its output; nothing of it is trimmed."""

    exec_id: str = ""
    stdout: str = ""
    stderr: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    lossy: bool = False
    timeout_seconds: float = 0

    def check(self) -> ExecResult:
        """Gives itself; raises `CommandError` unless the command exited with 0."""
        if self.exit_code == 0:
            return self
        last = (self.stderr or self.stdout).rstrip().rsplit("\n", 1)[-1][:200]
        raise CommandError(f"the command ended with {self.exit_code} ({self.reason}){': ' if last else ''}{last}", self)


@dataclass(frozen=True)
class CommandInfo:
    """What the sandbox knows of a command or a shell: of one that runs, or ended less than 10 minutes ago.

    Attributes:
        command: Its first 400 characters.
        exit_code: None while it runs, and where nobody saw the end.
        attached: How many clients read it now.
        result: What `exec` would give, once it has ended. Only `get` tells it, of a command whose end was seen.
    """

    exec_id: str
    state: Literal["running", "exited"]
    kind: Literal["exec", "shell"]
    command: str
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    reason: str | None
    attached: int
    result: ExecResult | None = None


@dataclass(frozen=True)
class CommandOutput:
    """A piece of a stream that was asked for without joining its command.

    Attributes:
        offset: The first byte of `data` in its stream; more than was asked for where older bytes are kept no longer.
        next_offset: What to ask for next.
        oldest_offset: The first byte that is still kept.
        ended: The stream has ended, and `data` has its last byte.
    """

    data: bytes
    offset: int
    next_offset: int
    oldest_offset: int
    ended: bool

    @property
    def text(self) -> str:
        """The piece as UTF-8; a character that a piece cuts in two becomes U+FFFD."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class ProcessInfo:
    """What is known of a managed process.

    Attributes:
        env_keys: Names of its environment; values are never told again.
        exit_code: Of the last run; None while it runs, and where nobody saw the end.
        stderr_preview: The last 4,000 characters; also why it could not be started.
        restarting: It has ended and is about to be started again.
    """

    process_id: str
    status: Literal["running", "exited"]
    command: str
    args: Sequence[str]
    cwd: str
    env_keys: Sequence[str]
    attached: bool
    started_at: datetime
    exited_at: datetime | None
    exit_code: int | None
    signal: str | None
    reason: str | None
    stderr_preview: str
    restarts: int
    restarting: bool


@dataclass(frozen=True)
class Output:
    """A piece of a stream. `offset` is its first byte in the stream."""

    stream: Stream
    data: bytes
    offset: int

    @property
    def text(self) -> str:
        """The piece as UTF-8; a character that a piece cuts in two becomes U+FFFD."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class SessionEvent:
    """Something that happened to a session.

    Attributes:
        type: `state`, `wake`, `egress`, `exec.exit`, `process.exit`, `lease`, `released`, or `gap`: the events `data["from"]` to
            `data["to"]` are kept no longer.
        id: What `last_event_id` takes; None for a gap.
        at: When it happened, by the broker's clock; None for a gap.
        data: What `docs/protocol/events.md` says of the type.
    """

    type: str
    id: int | None
    at: datetime | None
    data: Mapping[str, Any]


@dataclass(frozen=True)
class FileEntry:
    """One entry of a listing. `mtime` is RFC 3339, `mode` four octal digits."""

    path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    mtime: str
    mode: str


@dataclass(frozen=True)
class Listing:
    """Entries sorted by path. `truncated`: the tree has more than a listing holds."""

    entries: list[FileEntry]
    truncated: bool = False
