"""A journal on a PostgreSQL server, for tests: its place, its active members and its records."""

import time
from collections.abc import Iterable
from typing import NamedTuple

import psycopg

from qmgrd.engine.fence import Claim, Fence, claim, read_fence
from qmgrd.engine.schema import LOCK_CLASS, Place, create_segment, open_place, segments
from qmgrd.engine.server import connect
from qmgrd.store.log import Record

POLL_S, POLLS = 0.005, 4_000


class Taken(NamedTuple):
    """A member that has become active."""

    connection: psycopg.Connection
    epoch: int


class Journal:
    """A journal, and the connections of a test, which close() ends."""

    def __init__(self, url: str, name: str = "QM") -> None:
        self.url, self.name = url, name
        self._connections: list[psycopg.Connection] = []
        self.admin = self.connect()
        self.place: Place = open_place(self.admin, name)

    def connect(self) -> psycopg.Connection:
        """Returns another connection."""
        connection = connect(self.url, "test")
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Ends all connections."""
        for connection in self._connections:
            connection.close()

    def change(self, assignment: str) -> None:
        """Changes the row of the queue manager."""
        number = self.place.manager
        self.admin.execute(f"update qmgrd.manager set {assignment} where number = {number}")

    def fence(self) -> Fence:
        """Returns the current fence."""
        return read_fence(self.admin, self.place)

    def claim(
        self, member: str, seen: Fence | None = None, *, is_forced: bool = False
    ) -> tuple[psycopg.Connection, Claim | None]:
        """Tries to make *member* active on a new connection."""
        connection = self.connect()
        seen = seen or self.fence()
        names = member, f"{member}:7470", "a test"
        return connection, claim(connection, self.place, seen, *names, is_forced=is_forced)

    def take(self, member: str, *, is_forced: bool = False) -> Taken:
        """Makes *member* active, with segment 1."""
        connection, claimed = self.claim(member, is_forced=is_forced)
        assert claimed is not None
        if not segments(connection, self.place):
            self.create(1)
        return Taken(connection, claimed.epoch)

    def create(self, *numbers: int) -> None:
        """Creates empty segments."""
        for number in numbers:
            self.admin.execute(create_segment(self.place, number))

    def write(self, segment: int, records: Iterable[int], epoch: int = 1, size: int = 3) -> None:
        """Writes records to a segment, past the fence."""
        self.create(segment)
        for number in records:
            self.admin.execute(
                f"insert into {self.place.segment(segment)} (record, epoch, content) "
                "values (%s, %s, %b)",
                (number, epoch, content_of(number, size)),
            )

    def records(self) -> list[Record]:
        """Returns all records of the log, in the order of the segments."""
        found: list[Record] = []
        for number in segments(self.admin, self.place):
            rows = self.admin.execute(
                f"select record, epoch, content from {self.place.segment(number)} order by record"
            )
            found += [Record(*row) for row in rows]
        return found

    def sessions(self, purpose: str) -> list[int]:
        """Returns the processes of the sessions with this purpose."""
        rows = self.admin.execute(
            "select pid from pg_stat_activity where application_name = %s", (f"qmgrd {purpose}",)
        )
        return [pid for (pid,) in rows]

    def holder(self) -> int | None:
        """Returns the process of the session that holds the lock of the active member."""
        row = self.admin.execute(
            "select pid from pg_locks where locktype = 'advisory' and granted and classid = %s "
            "and objid = %s "
            "and database = (select oid from pg_database where datname = current_database())",
            (LOCK_CLASS, self.place.manager),
        ).fetchone()
        return None if row is None else int(row[0])

    def is_blocked(self, pid: int) -> bool:
        """Returns whether a session waits for a lock."""
        row = self.admin.execute("select cardinality(pg_blocking_pids(%s))", (pid,)).fetchone()
        return row != (0,)


def content_of(number: int, size: int = 3) -> bytes:
    """Returns a content that differs for each record."""
    return (b"%d." % number * size)[:size]


def end_session(journal: Journal, pid: int) -> None:
    """Ends a session, and returns when it has ended."""
    journal.admin.execute("select pg_terminate_backend(%s, 10000)", (pid,))


def wait_until_blocked(journal: Journal, pid: int) -> None:
    """Returns when a session waits for a lock."""
    for _ in range(POLLS):
        if journal.is_blocked(pid):
            return
        time.sleep(POLL_S)
    raise AssertionError("the session waits for no lock")
