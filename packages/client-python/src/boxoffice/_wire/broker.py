"""The control plane: negotiate, refresh, heartbeat, release, list."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ..errors import BoxofficeError, InvalidResponseError
from ..types import SessionOptions
from .effects import Http, Op, Response
from .retry import retrying, send

DEFAULT_WAIT_SECONDS = 30
ONCE_SECONDS = 10
"""How long a request may last that is not repeated."""
_SESSIONS = "/v1/sandbox/sessions"


class Broker:
    """One broker and the key it is asked with."""

    def __init__(self, url: str, api_key: str, window: float) -> None:
        if not api_key:
            raise ValueError("api_key is missing: give the API key of the broker")
        if not re.fullmatch(r"[!-~]+", api_key):
            # The HTTP library would refuse it with a message that shows it.
            raise ValueError("api_key has characters that no key has")
        self.url = url.rstrip("/")
        self.window = window
        self._api_key = api_key

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        wait: float = 0,
        once: bool = False,
    ) -> Op[Response]:
        """One request, repeated while the broker is away unless `once`. `wait`: seconds that it was asked to take."""
        sent = {"authorization": f"Bearer {self._api_key}", **(headers or {})}
        content = None
        if body is not None:
            sent["content-type"] = "application/json"
            content = json.dumps(body).encode()
        request = Http(method, self.url + path, sent, content, wait, ONCE_SECONDS if once else None)
        return (yield from retrying(lambda: send(request), 0 if once else self.window))

    def negotiate(self, thread_id: str, options: SessionOptions, *, once: bool = False) -> Op[dict[str, Any]]:
        """Finds or makes the session of a thread. A repeated request makes no second one [4-10]."""
        mode = options.get("mode", "ensure")
        body: dict[str, Any] = {"thread_id": thread_id, "mode": mode}
        for name in ("profile", "relay", "labels", "actor"):
            if name in options:
                body[name] = options[name]
        if "capabilities" in options:
            body["requested_capabilities"] = list(options["capabilities"])
        wait = options.get("wait_seconds", DEFAULT_WAIT_SECONDS)
        headers = {"prefer": f"wait={wait}"}
        if mode in ("ensure", "create_only"):
            headers["idempotency-key"] = uuid.uuid4().hex
        response = yield from self.call("POST", _SESSIONS, body, headers, wait=wait, once=once)
        return _negotiated(response)

    def refresh(self, session_id: str, body: Mapping[str, Any], *, once: bool = False) -> Op[dict[str, Any]]:
        """Another token for the session: `{token, expires_at}`."""
        response = yield from self.call("POST", f"{_path(session_id)}/refresh", body, once=once)
        return _fields(response, "token", "expires_at")

    def heartbeat(self, session_id: str) -> Op[dict[str, Any]]:
        """Moves the lease; gives `{binding, lease_expires_at}`."""
        response = yield from self.call("POST", f"{_path(session_id)}/heartbeat", {})
        return _fields(response, "binding", "lease_expires_at")

    def events(self, session_id: str, after: int | None) -> Http:
        """The stream of a session's events."""
        sent = {"authorization": f"Bearer {self._api_key}", "accept": "text/event-stream"}
        if after is not None:
            sent["last-event-id"] = str(after)
        return Http("GET", f"{self.url}{_path(session_id)}/events", sent)

    def release(self, session_id: str, keep_workspace: bool) -> Op[None]:
        """Ends the session. One that is gone is fine [C-54]."""
        try:
            yield from self.call("DELETE", _path(session_id) + ("?keep_workspace=true" if keep_workspace else ""))
        except BoxofficeError as error:
            if not error.is_code("BINDING_NOT_FOUND"):
                raise

    def sessions(self, state: str | None) -> Op[list[dict[str, Any]]]:
        """The bindings that the caller may use, newest first."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {"limit": "200", **({"state": state} if state else {}), **({"cursor": cursor} if cursor else {})}
            page = _fields((yield from self.call("GET", f"{_SESSIONS}?{urlencode(query)}")), "sessions")
            found.extend(page["sessions"])
            cursor = page.get("next_cursor")
            if cursor is None:
                return found


def _path(session_id: str) -> str:
    return f"{_SESSIONS}/{quote(session_id, safe='')}"


def _fields(response: Response, *names: str) -> dict[str, Any]:
    answer = response.json()
    if isinstance(answer, dict) and all(name in answer for name in names):
        return answer
    raise InvalidResponseError("the broker gave an answer that is not in the contract", status=response.status)


def _negotiated(response: Response) -> dict[str, Any]:
    answer = _fields(response, "session_id", "token", "expires_at", "sandbox")
    sandbox = answer["sandbox"]
    if isinstance(sandbox, dict) and all(isinstance(sandbox.get(name), str) for name in ("id", "http_base_url", "ws_base_url")):
        return answer
    raise InvalidResponseError("the broker gave no sandbox with this session", status=response.status)
