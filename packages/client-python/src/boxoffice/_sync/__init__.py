"""The blocking client. `write_async.py` makes the asynchronous one of it."""

from .client import Client, Session
from .files import Files
from .run import Run

__all__ = ["Client", "Files", "Run", "Session"]
