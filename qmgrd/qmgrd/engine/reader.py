"""Reads the log of a queue manager, for a standby and for a member that starts.

All methods wait for the server, so they run on a thread of their own.
"""

from contextlib import suppress
from typing import NamedTuple

import psycopg

from qmgrd.engine.bases import newest_base
from qmgrd.engine.fence import Fence, read_fence
from qmgrd.engine.schema import Place, segments
from qmgrd.engine.server import connect, explained
from qmgrd.store.log import Position, Record

READ_MAX_BYTES = 8 << 20
EMPTY_BYTES = 1  # the content of a record without changes
READ_MAX_RECORDS = 5_000


class LogTrimmed(Exception):
    """The log does not have the next record any more. The member needs a base."""


class LogShort(Exception):
    """The log ends before the last record of the store, or has another record there.

    Also: it has later records, but not the next one.
    """


class News(NamedTuple):
    """The result of one look at the log."""

    records: list[Record]  # the next records, in order, without a gap
    at_us: int  # the time of the last one with changes, by the clock of the server; 0: none
    fence: Fence
    is_end: bool  # whether the log had no further records


class LogReader:
    """A connection that reads the log.

    Invariant: ``_segment`` has the next record, or the next record would come after it.
    """

    def __init__(self, url: str, place: Place, purpose: str) -> None:
        self._url, self._place, self._purpose = url, place, purpose
        self._connection: psycopg.Connection | None = None
        self._segment: int | None = None
        self._next = 0  # the record that the next read begins with

    def look(self, position: Position) -> News:
        """Returns the records after *position*, up to READ_MAX_BYTES and one record.

        Raises:
            LogTrimmed: The log begins after *position*.
            LogShort: *position*, or the record after it, is not in the log.
            ServerAway, ServerUnusable: The server cannot be read. The next look connects again.
        """
        try:
            connection = self._connection = self._connection or self._connected()
            if self._segment is None or self._next != position.number + 1:
                self._find(connection, position)
            # The fence comes first: records that follow it may be of a later epoch, never earlier.
            fence = read_fence(connection, self._place)
            rows = self._read(connection, position.number)
            while not rows and self._goes_on(connection, position.number):
                rows = self._read(connection, position.number)
        except psycopg.Error as error:
            self.close()
            raise explained(error) from error
        records = [Record(number, epoch, content) for number, epoch, content, _ in rows]
        if records:
            self._next = records[-1].number + 1
        # Empty records do not change the store, so its clock is that of an earlier record.
        times = [at_us for _, _, content, at_us in rows if len(content) > EMPTY_BYTES]
        return News(records, times[-1] if times else 0, fence, is_end=not rows)

    def close(self) -> None:
        """Ends the connection. The next look begins a new one."""
        connection, self._connection = self._connection, None
        self._segment = None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _connected(self) -> psycopg.Connection:
        return connect(self._url, self._purpose)

    def _find(self, connection: psycopg.Connection, position: Position) -> None:
        """Finds the segment of the next record, and checks that *position* is in the log."""
        self._segment, self._next = None, position.number + 1
        firsts = []
        for number in segments(connection, self._place):
            first = self._scalar(connection, "min(record)", number)
            if first is not None:
                firsts.append((first, number))
        base = newest_base(connection, self._place)
        begin = base.position if base is not None else Position(0, 0)
        if position == begin and (not firsts or firsts[0][0] == position.number + 1):
            self._segment = firsts[0][1] if firsts else None
            return
        if not firsts and position.number > begin.number:
            raise LogShort(f"the log is empty, but the store has record {position.number}")
        if not firsts:
            raise LogTrimmed(f"the log begins after record {begin.number}, with its base")
        # Without the record at the position, its epoch could not be checked.
        begun = [number for first, number in firsts if first <= max(position.number, 1)]
        if not begun:
            raise _missing(firsts[0][0], position.number, begin.number)
        end = self._scalar(connection, "max(record)", firsts[-1][1]) or 0
        if end < position.number:
            raise LogShort(
                f"the log ends with record {end}, but the store has record {position.number}: the "
                "server lost acknowledged turns, for example in a failover to a server that was "
                "behind"
            )
        if position.number:
            epoch = self._scalar(connection, "max(epoch)", begun[-1], position.number)
            if epoch != position.epoch:
                raise LogShort(
                    f"record {position.number} of the log is of epoch {epoch or 0}, but that of "
                    f"the store is of epoch {position.epoch}: the server lost acknowledged turns"
                )
        self._segment = [number for first, number in firsts if first <= position.number + 1][-1]

    def _scalar(
        self, connection: psycopg.Connection, what: str, segment: int, record: int | None = None
    ) -> int | None:
        where = "" if record is None else f" where record = {record}"
        row = connection.execute(
            f"select {what} from {self._place.segment(segment)}{where}"
        ).fetchone()
        return None if row is None else row[0]

    def _read(
        self, connection: psycopg.Connection, after: int
    ) -> list[tuple[int, int, bytes, int]]:
        """Returns number, epoch, content and time of the next records of the segment."""
        if self._segment is None:
            return []
        rows = connection.execute(
            "select record, epoch, content, (extract(epoch from at) * 1000000)::bigint from ("
            "select record, epoch, content, at, sum(octet_length(content)) over (order by record) "
            f"as total from {self._place.segment(self._segment)} where record > %s "
            "order by record limit %s) as next where total - octet_length(content) < %s "
            "order by record",
            (after, READ_MAX_RECORDS, READ_MAX_BYTES),
            binary=True,
            prepare=True,
        ).fetchall()
        for expected, row in enumerate(rows, after + 1):
            if row[0] != expected:
                raise _gap(expected, row[0])
        return rows

    def _goes_on(self, connection: psycopg.Connection, after: int) -> bool:
        """Goes on with the next segment if it has records. Returns whether it has."""
        current = self._segment or 0
        for number in segments(connection, self._place):
            first = self._scalar(connection, "min(record)", number) if number > current else None
            if first is None:
                continue
            # The current segment may have got records since it was read.
            end = self._scalar(connection, "max(record)", current) if current else None
            if (end or after) > after:
                return True
            if first != after + 1:
                raise _gap(after + 1, first)
            self._segment = number
            return True
        return False


def _missing(first: int, number: int, base: int) -> LogTrimmed | LogShort:
    """Returns the error of a log that begins after the record that the store needs next."""
    why = f"the log begins with record {first}, but the store ends with {number}"
    if base > number:
        return LogTrimmed(why)
    return LogShort(f"{why}, and no base is between them: the log was damaged")


def _gap(expected: int, found: int) -> LogShort:
    return LogShort(f"the log has record {found}, but not record {expected}: it was damaged")
