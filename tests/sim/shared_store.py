"""A store of the simulator whose log is on a server. Each start is the takeover of another member.

The rows of the log are the truth: a record that reached the server is durable, even if its answer
was lost. Each member has an LMDB store in memory, which only knows what the log has.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qmgrd.store.checkpoint import apply
from qmgrd.store.lmdb_store import LmdbStore
from qmgrd.store.logged_store import LoggedStore
from tests.fake_log import LOG_ID, FakeLog, FakeServer
from tests.sim.store import Change, Crash, WatchedStore

MAP_BYTES = 64 << 20
REBUILD_EVERY = 4  # Every fourth member begins with an empty store.


class SharedStore(WatchedStore):
    """A WatchedStore whose commits are records of a log."""

    def __init__(self, watch: Callable[[list[Change]], None]) -> None:
        super().__init__(watch)
        memory = Path("/dev/shm")
        self._home = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        weakref.finalize(self, shutil.rmtree, self._home, ignore_errors=True)
        self._server = FakeServer()
        self._members: list[LoggedStore] = []
        self._count = 0
        self.reopen()

    def reopen(self) -> None:
        """Lets another member take over."""
        if self._members:
            LmdbStore.close(self._active)  # without the last checkpoint, as a kill does
        which = self._count % 2
        directory = self._home / str(which)
        self._count += 1
        if self._count % REBUILD_EVERY == 0:
            shutil.rmtree(directory, ignore_errors=True)
        store = LoggedStore(directory, MAP_BYTES, LOG_ID)
        self._members = [store]
        log = self._server.claim(store)
        log.__class__ = _Log
        assert isinstance(log, _Log)
        log.shared = self

    @property
    def _active(self) -> LoggedStore:
        return self._members[0]

    def begin(self) -> Any:
        """Opens the write transaction of the active member."""
        return self._active.begin()

    def commit(self) -> None:
        """Makes the transaction durable."""
        if self.crash == "before":
            raise Crash
        before = len(self._server.records)
        self._active.commit()
        if len(self._server.records) == before and self.crash == "after":
            raise Crash

    def abort(self) -> None:
        """Undoes the changes of the transaction."""
        self._active.abort()

    def landed(self, content: bytes) -> None:
        """Reports a record that the server has."""
        old: dict[bytes, bytes | None] = {}

        def put(key: bytes, value: bytes) -> None:
            old.setdefault(key, self.rows.get(key))
            self.rows[key] = value

        def delete(key: bytes) -> None:
            old.setdefault(key, self.rows.get(key))
            self.rows.pop(key, None)

        apply(content, put, delete)
        self.flushes += bool(old)
        self._watch([Change(key, before, self.rows.get(key)) for key, before in old.items()])
        if self.crash == "after":
            raise Crash


class _Log(FakeLog):
    """A log that reports each record as soon as the server has it."""

    shared: SharedStore

    def wait(self) -> None:
        """Lets the record arrive, and then its answer."""
        if self.flight is not None and self.arrive():
            self.shared.landed(self.flight.content)
        self.answer()
