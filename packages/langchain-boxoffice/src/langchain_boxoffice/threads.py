"""One session for each thread of a graph."""

from __future__ import annotations

import threading

from boxoffice import Client, Session
from boxoffice.types import SessionOptions
from langgraph.config import get_config


class ThreadSessions:
    """Finds or makes the session of the thread that runs. However many ask at once, one request goes out for a thread."""

    def __init__(self, client: Client, options: SessionOptions | None = None) -> None:
        self._client = client
        self._options = options or SessionOptions()
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._sessions: dict[str, Session] = {}

    def current(self) -> Session:
        """The session of the run's `configurable.thread_id`. Subgraphs and sub-agents have their parent's."""
        thread_id = (get_config().get("configurable") or {}).get("thread_id")
        if not isinstance(thread_id, str) or not thread_id:
            raise ValueError("the run has no configurable.thread_id: invoke the graph with one")
        return self.of(thread_id)

    def of(self, thread_id: str) -> Session:
        """The session of a thread."""
        with self._lock:
            lock = self._locks.setdefault(thread_id, threading.Lock())
        with lock:
            session = self._sessions.get(thread_id)
            if session is None:
                session = self._sessions[thread_id] = self._client.session(thread_id, **self._options)
            return session

    def forget(self, session: Session) -> None:
        """A session that has ended is negotiated again when its thread next needs one."""
        with self._lock:
            for thread_id in [key for key, held in self._sessions.items() if held is session]:
                del self._sessions[thread_id]
