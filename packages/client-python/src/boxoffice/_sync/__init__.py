"""The blocking client. `write_async.py` makes the asynchronous one of it."""

from .client import Client, Session
from .commands import Commands
from .files import Files
from .processes import Processes
from .run import Run

__all__ = ["Client", "Commands", "Files", "Processes", "Run", "Session"]
