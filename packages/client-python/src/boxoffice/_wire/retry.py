"""Repeats what may be repeated, and reads refusals."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from ..errors import BoxofficeError, ConnectionFailedError, InvalidResponseError, SilenceError, error_of
from .effects import Http, Op, Response, Sleep, T, Unreachable

FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0
PASSING = ("CONNECTION_FAILED", "SANDBOX_STARTING", "BACKEND_UNAVAILABLE")
ALSO_BUSY = (*PASSING, "RATE_LIMITED")
ESTABLISHED_SECONDS = 2.0
"""An attempt that lasted so long had a connection: what follows is a new failure with a new window."""


def backoff(attempt: int) -> float:
    """Seconds before attempt `attempt` (0 first), of which a random half is taken off so that clients spread."""
    return float(min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(attempt, 6)) * (1 - random.random() / 2))


def is_passing(error: BoxofficeError, codes: Sequence[str] = PASSING) -> bool:
    """Whether the same may work later. A sandbox that is gone goes by the name of a backend that is away, too."""
    return not error.is_code("SANDBOX_LOST") and any(error.is_code(code) for code in codes)


def retrying(attempt: Callable[[], Op[T]], window: float, codes: Sequence[str] = PASSING) -> Op[T]:
    """Repeats `attempt` until it works, fails for good, or has failed for `window` seconds. A second silence is for good."""
    failures = silences = 0
    failing_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return (yield from attempt())
        except BoxofficeError as error:
            if isinstance(error, SilenceError):
                silences += 0 if error.certain else 1
                error.final = error.final or silences > 1
                if error.final:
                    raise
            now = time.monotonic()
            never_connected = isinstance(error, ConnectionFailedError) and error.certain
            if failing_since is None or (now - began > ESTABLISHED_SECONDS and not never_connected):
                failing_since, failures = now, 0
            wait = backoff(failures) if error.retry_after is None else error.retry_after
            if not is_passing(error, codes) or now + wait - failing_since > window:
                raise
        failures += 1
        yield Sleep(wait)


def send(request: Http) -> Op[Response]:
    """One request. Gives a successful answer; raises the error of a refusal."""
    try:
        response: Response = yield request
    except Unreachable as error:
        if error.silent:
            raise SilenceError(f"{origin(request.url)} is silent ({error})", certain=error.certain) from error
        raise ConnectionFailedError(f"{origin(request.url)} cannot be reached ({error})", certain=error.certain) from error
    if 200 <= response.status < 300:
        return response
    raise refusal_of(response, request.url)


def refusal_of(response: Response, url: str) -> BoxofficeError:
    """The error that a refusal says."""
    seconds = response.headers.get("retry-after", "")
    retry_after = float(seconds) if seconds.isdigit() else None
    envelope = response.json()
    error = envelope.get("error") if isinstance(envelope, dict) else None
    if isinstance(error, dict) and "code" in error:
        return error_of(error, status=response.status, retry_after=retry_after)
    return InvalidResponseError(
        f"{origin(url)} answered {response.status} without a Boxoffice error; is this the right URL?",
        status=response.status,
        retryable=response.status in (429, 503),
        retry_after=retry_after,
    )


def origin(url: str) -> str:
    """Scheme, host and port: paths hold session ids, which messages need not show."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
