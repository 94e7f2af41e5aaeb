"""The token of a session, kept in date."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from ..errors import BoxofficeError
from .effects import Op

RENEW_AT = 0.8
"""A token is renewed after this part of its life."""
AGAIN_AFTER = 2.0
"""Seconds before a renewal that failed is tried again."""


class Token:
    """Times come from the token's own life and a monotonic clock, so that a wrong clock on this machine changes nothing."""

    def __init__(self, issued: dict[str, Any], renewal: Callable[[bool], Op[dict[str, Any]]]) -> None:
        """`renewal` asks for another one; once, or for as long as the broker may be away."""
        self._renewal = renewal
        self._hold(issued)

    def _hold(self, issued: dict[str, Any]) -> None:
        self.value = str(issued["token"])
        self.expires_at = datetime.fromisoformat(str(issued["expires_at"]).replace("Z", "+00:00"))
        left = (self.expires_at - datetime.now(timezone.utc)).total_seconds()
        life = _life_of(self.value) or left
        usable = min(left, life) if left > 0 else life
        self.renew_at = time.monotonic() + usable * RENEW_AT
        self.ends_at = time.monotonic() + usable

    def current(self) -> Op[str]:
        """The token for a new request: renewed first when it is due. Without a broker the old one goes on while it is in date."""
        now = time.monotonic()
        if now < self.renew_at:
            return self.value
        if now >= self.ends_at:
            return (yield from self.renew(self.value))
        # While one asks, others go on with what they have.
        self.renew_at = now + AGAIN_AFTER
        try:
            return (yield from self.renew(self.value, once=True))
        except BoxofficeError:
            self.renew_at = time.monotonic() + AGAIN_AFTER
            return self.value

    def renew(self, rejected: str, *, once: bool = False) -> Op[str]:
        """A token that is not `rejected`."""
        if self.value == rejected:
            fresh = yield from self._renewal(once)
            self._hold(fresh)
        return self.value


def _life_of(token: str) -> float | None:
    """`exp - iat` of a JWT, read without checking anything; None for a token of another kind."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        life = float(claims["exp"]) - float(claims["iat"])
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return life if life > 0 else None
