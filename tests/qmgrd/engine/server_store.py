"""A store of the tests of the core whose log is on a real server. Each start is a takeover."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch

from qmgrd.engine.appender import Appender, Segment
from qmgrd.engine.fence import claim, read_fence
from qmgrd.engine.reader import LogReader
from qmgrd.engine.schema import create_segment, open_place, segments
from qmgrd.engine.server import connect
from qmgrd.store.lmdb_store import LmdbStore
from qmgrd.store.logged_store import LoggedStore
from tests.memory_store import MemoryStore

MAP_BYTES = 64 << 20


class ServerStore(MemoryStore):
    """A store whose commits are records on a server. Call :meth:`close` at the end."""

    def __init__(self, url: str, home: Path, name: str) -> None:
        super().__init__()
        self._url, self._home = url, home
        self._loop = asyncio.new_event_loop()  # never runs, because each commit waits
        connection = connect(url, "test")
        self._place = open_place(connection, name)
        connection.close()
        self._store: LoggedStore | None = None
        self._appender: Appender | None = None
        self._count = 0
        self.reopen()

    def reopen(self) -> None:
        """Kills the active member, and lets another one take over."""
        self._kill()
        store = LoggedStore(self._home / str(self._count % 2), MAP_BYTES, self._place.log_id)
        self._count += 1
        reader = LogReader(self._url, self._place, "test")
        connection = connect(self._url, "test")
        fence = read_fence(connection, self._place)
        member = f"m{self._count}"
        claimed = claim(connection, self._place, fence, member, "", "a test", is_forced=True)
        assert claimed is not None
        while not (news := reader.look(store.position)).is_end:
            for record in news.records:
                store.follow(record)
        reader.close()
        number = segments(connection, self._place)[-1:] or [1]
        connection.execute(create_segment(self._place, number[0]))
        with patch.object(asyncio, "get_running_loop", lambda: self._loop):
            self._appender = Appender(
                connection,
                self._url,
                self._place,
                claimed.epoch,
                Segment(number[0], 0),
                store.landed,
            )
        store.lead(self._appender, claimed.epoch, away_us=0, silence_max_s=60.0)
        self._store = store

    def begin(self) -> Any:
        """Opens the write transaction of the active member."""
        assert self._store is not None
        return self._store.begin()

    def commit(self) -> None:
        """Returns when the server has the turn."""
        assert self._store is not None
        self._store.commit()

    def abort(self) -> None:
        """Undoes the changes of the transaction."""
        assert self._store is not None
        self._store.abort()

    def close(self) -> None:
        """Ends the member and its connections."""
        self._kill()
        self._loop.close()

    def _kill(self) -> None:
        if self._store is not None and self._appender is not None:
            self._appender.close()
            LmdbStore.close(self._store)  # without the last checkpoint, as a kill does
        self._store = self._appender = None
