"""Errors: one class for each family of codes. `code` is stable; a code of a newer server has the class of its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class BoxofficeError(Exception):
    """Every refusal and failure.

    Attributes:
        code: The code of `docs/protocol/errors.md`, or one of this client's own (`CONNECTION_FAILED`, `INVALID_RESPONSE`, `OUTPUT_GAP`).
        status: The HTTP status, where there was one.
        retryable: Whether the same request may work later.
        aliases: Other names of the code.
        details: What the server adds.
        retry_after: Seconds to wait, where the server said so.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        request_id: str | None = None,
        aliases: Sequence[str] = (),
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retryable = retryable
        self.request_id = request_id
        self.aliases = tuple(aliases)
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after = retry_after

    def is_code(self, code: str) -> bool:
        """Whether the error goes by this name; many codes have two."""
        return code == self.code or code in self.aliases


class ConnectionFailedError(BoxofficeError):
    """Nobody answered, or a connection stayed away longer than `reconnect_window`. `certain`: not even a connection was made."""

    def __init__(self, message: str, *, certain: bool = False) -> None:
        super().__init__("CONNECTION_FAILED", message, retryable=True)
        self.certain = certain


class SilenceError(ConnectionFailedError):
    """The network is silent: nothing came over a connection for `request_timeout`, or it was not made in time (then `certain`)."""

    final = False
    """What may be repeated was repeated."""


class InvalidRequestError(BoxofficeError):
    """The request itself cannot be served: a defect of the caller."""


class AuthenticationError(BoxofficeError):
    """The API key or the token was refused."""


class AccessDeniedError(BoxofficeError):
    """The caller may not do this: no access to the session, or a capability that was not granted."""


class FileError(BoxofficeError):
    """A file operation failed: the path, the file, its permissions or its directory."""


class NotFoundError(BoxofficeError):
    """There is no such session, command or route."""


class ConflictError(BoxofficeError):
    """What is there already does not allow it."""


class SessionEndedError(BoxofficeError):
    """The session or its sandbox has ended. Negotiate again; what ran is gone."""


class LimitError(BoxofficeError):
    """Too much: too large, too often, too many at once, or no room on the disk."""


class UnavailableError(BoxofficeError):
    """No provider, no agent, or a sandbox that is starting. Passing."""


class UnsupportedError(BoxofficeError):
    """The provider or the server cannot do it."""


class ServerError(BoxofficeError):
    """A defect of the server; its log has `request_id`."""


class InvalidResponseError(BoxofficeError):
    """An answer that is not Boxoffice's: a proxy, or another program on the port."""

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__("INVALID_RESPONSE", message, status=status, retryable=retryable, retry_after=retry_after)


class OutputGapError(BoxofficeError):
    """Bytes `start` (included) to `end` (excluded) of a stream are lost: overwritten before this client came (back). Reading goes on."""

    def __init__(self, stream: str, start: int, end: int) -> None:
        super().__init__("OUTPUT_GAP", f"{stream}: bytes {start} to {end} are lost; read on to get what follows")
        self.stream, self.start, self.end = stream, start, end


class CommandError(Exception):
    """A command that did not exit with 0, from `ExecResult.check()`. `result` has all that is known of it."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


_FILE = (
    *("INVALID_PATH", "IS_DIRECTORY", "NOT_A_DIRECTORY", "NOT_A_FILE", "DIRECTORY_NOT_EMPTY"),
    *("PERMISSION_DENIED", "READ_ONLY", "FILE_NOT_FOUND", "FILE_EXISTS", "PRECONDITION_FAILED"),
)
_FAMILIES: dict[str, type[BoxofficeError]] = {
    **dict.fromkeys(_FILE, FileError),
    **dict.fromkeys(("SESSION_RELEASED", "SESSION_EXPIRED", "SANDBOX_LOST"), SessionEndedError),
}
_BY_STATUS: dict[int, type[BoxofficeError]] = {
    **dict.fromkeys((400, 405, 415, 416), InvalidRequestError),
    401: AuthenticationError,
    403: AccessDeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: SessionEndedError,
    **dict.fromkeys((413, 429, 507), LimitError),
    **dict.fromkeys((408, 423, 503), UnavailableError),
    501: UnsupportedError,
}


def error_of(error: Mapping[str, Any], *, status: int | None = None, retry_after: float | None = None) -> BoxofficeError:
    """Makes the error of an `error` member of an envelope or an error frame."""
    code = str(error.get("code", "INTERNAL"))
    family = _FAMILIES.get(code) or _BY_STATUS.get(status or 0, ServerError)
    return family(
        code,
        str(error.get("message", code)),
        status=status,
        retryable=error.get("retryable") is True,
        request_id=error.get("request_id"),
        aliases=error.get("aliases") or (),
        details=error.get("details"),
        retry_after=retry_after,
    )
