"""The asynchronous client, written by `write_async.py`."""

from .client import AsyncClient, AsyncSession
from .commands import AsyncCommands
from .files import AsyncFiles
from .processes import AsyncProcesses
from .run import AsyncRun

__all__ = ["AsyncClient", "AsyncCommands", "AsyncFiles", "AsyncProcesses", "AsyncRun", "AsyncSession"]
