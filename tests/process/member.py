"""Runs a member with small segments and bases, and a bug: python -m tests.process.member BUG ..."""

import sys
import time
from collections.abc import Iterable

import psycopg

from qmgrd.engine import bases, fence
from qmgrd.engine.appender import Appender
from qmgrd.engine.schema import Place, segments
from qmgrd.main import main
from qmgrd.member.keeper import Keeper
from qmgrd.store.logged_store import LoggedStore

SEGMENT_BYTES = 4 << 20
BASE_LEAST_BYTES = 4 << 20
WRITE_S = 1.0  # the time after which the bug early-trim writes its base


def sound() -> None:
    """Plants no bug."""


def no_fence() -> None:
    """Appends records without a comparison of the epoch."""

    def insert(self: Appender) -> bytes:
        table = self._place.segment(self._segment.number)
        return (
            f"insert into {table} (record, epoch, content) "
            f"values ($1::bigint, {self._epoch}, $2::bytea) on conflict do nothing"
        ).encode()

    Appender._insert = insert  # type: ignore[method-assign]


def ahead() -> None:
    """Commits each turn to LMDB while its record is on its way."""
    send_off = LoggedStore._send_off

    def send_and_commit(self: LoggedStore) -> None:
        send_off(self)
        durable, self.durable, self._epoch = self.durable, self._number, self._own_epoch
        self._checkpoint(is_last=False)
        self.durable = durable

    LoggedStore._send_off = send_and_commit  # type: ignore[method-assign]


def early_trim() -> None:
    """Drops the segments before a base while the base is not complete, and writes it later."""
    write_base = bases.write_base

    def write(
        connection: psycopg.Connection, place: Place, number: int, pieces: Iterable[bytes]
    ) -> int:
        for segment in segments(connection, place)[:-1]:
            bases._drop(connection, place.segment(segment))
        time.sleep(WRITE_S)
        return write_base(connection, place, number, pieces)

    bases.write_base = write


VARIANTS = {"sound": sound, "no-fence": no_fence, "ahead": ahead, "early-trim": early_trim}

if __name__ == "__main__":
    Appender.__init__.__defaults__ = (SEGMENT_BYTES,)
    Keeper.__init__.__defaults__ = (BASE_LEAST_BYTES,)
    fence.EPOCH_STEPS = 1  # So the epoch counts takeovers.
    VARIANTS[sys.argv.pop(1)]()
    main()
