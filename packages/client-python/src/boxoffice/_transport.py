"""What both drivers share: how httpx and websockets are set up, and what their failures mean."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ._wire.effects import Dropped, Http, Response, Unreachable

REQUEST_TIMEOUT = 60.0
CONNECT_SECONDS = 5.0
SOCKET_SECONDS = 10.0
MESSAGE_BYTES = 16 * 1024 * 1024

LIMITS = httpx.Limits(max_connections=256, max_keepalive_connections=64, keepalive_expiry=4)


def socket_options() -> list[Any]:
    """Lets the kernel find a dead peer within 30 s: a command may be silent for an hour, its connection may not."""
    options: list[Any] = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def checked_timeout(seconds: float) -> float:
    """`request_timeout`, in seconds."""
    if not 0 < seconds < float("inf"):
        raise ValueError(f"request_timeout is {seconds}; it is seconds, more than 0")
    return seconds


def http_arguments(request: Http, request_timeout: float) -> dict[str, Any]:
    """The arguments of httpx's `request`. Redirects are not followed: they would carry the credential away."""
    silence = None if request.wait is None else request_timeout + request.wait
    if request.at_most is not None:
        silence = request.at_most if silence is None else min(silence, request.at_most)
    timeout = httpx.Timeout(silence, connect=min(CONNECT_SECONDS, request_timeout), pool=None)
    return {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "content": request.content,
        "timeout": timeout,
        "follow_redirects": False,
    }


def response_of(response: httpx.Response) -> Response:
    """A whole answer."""
    return Response(response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content)


def unreachable(error: httpx.HTTPError | httpx.InvalidURL) -> Unreachable:
    """What a failed request means."""
    certain = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
    return Unreachable(str(error) or type(error).__name__, certain=certain, silent=isinstance(error, httpx.TimeoutException))


def socket_arguments(subprotocol: str, request_timeout: float) -> dict[str, Any]:
    """The arguments of websockets' `connect`.

    No proxy, as httpx takes none here. No pings: `ProcessStream` asks for signs of life, and where nobody reads, an answer behind unread
    messages would not be seen. No limit of messages: the agent sends no more than 768 KiB before an acknowledgement.
    """
    return {
        "subprotocols": [subprotocol],
        "compression": None,
        "max_size": MESSAGE_BYTES,
        "open_timeout": min(SOCKET_SECONDS, request_timeout),
        "proxy": None,
        "ping_interval": None,
        "max_queue": None,
        "close_timeout": 1,
    }


def refuse_elsewhere(connection: Any, url: str, subprotocol: str) -> None:
    """Raises where a redirect has led to another host, or the server is another one: no token goes there."""
    if connection.request is None or _place(f"//{connection.request.headers.get('Host')}", url) != _place(url, url):
        raise Dropped(1006, "the server redirected to another host")
    if connection.subprotocol != subprotocol:
        raise Dropped(1006, f"the server does not speak {subprotocol}")


def _place(url: str, scheme_of: str) -> tuple[str | None, int]:
    """Host, in lower case, and port."""
    parts = urlsplit(url)
    return parts.hostname, parts.port or (443 if urlsplit(scheme_of).scheme in ("wss", "https") else 80)


def dropped(error: BaseException) -> Dropped:
    """What a failed socket means."""
    if isinstance(error, ConnectionClosed):
        code = error.rcvd.code if error.rcvd is not None else 1006
        return Dropped(code, f"closed with {code}")
    if isinstance(error, InvalidStatus):
        answer = error.response
        headers = {name.lower(): value for name, value in answer.headers.raw_items()}
        refusal = Response(answer.status_code, headers, bytes(answer.body or b""))
        return Dropped(1006, f"refused with {answer.status_code}", refusal=refusal if _is_refusal(refusal) else None)
    # Nobody listens (OSError, TimeoutError), or somebody who is no WebSocket server.
    # Until Python 3.11 asyncio's own TimeoutError is another one.
    silent = isinstance(error, (TimeoutError, asyncio.TimeoutError))
    return Dropped(1006, str(error) or type(error).__name__, opened=isinstance(error, WebSocketException), silent=silent)


def _is_refusal(refusal: Response) -> bool:
    try:
        return "error" in json.loads(refusal.body)
    except (ValueError, TypeError):
        return False
