"""The asynchronous client, written by `write_async.py`."""

from .client import AsyncClient, AsyncSession
from .files import AsyncFiles
from .run import AsyncRun

__all__ = ["AsyncClient", "AsyncFiles", "AsyncRun", "AsyncSession"]
