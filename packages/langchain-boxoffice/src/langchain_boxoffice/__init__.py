"""Boxoffice sandboxes for deepagents."""

from .sandbox import BoxofficeSandbox
from .threads import ThreadSessions

__all__ = ["BoxofficeSandbox", "ThreadSessions"]
