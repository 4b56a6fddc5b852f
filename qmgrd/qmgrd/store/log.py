"""The log of a queue manager on a server, as its store sees it."""

import struct
from typing import NamedTuple, Protocol

from qmgrd.core.layout.kv import StoreFailed

LOG_ID_BYTES = 8
_EPOCH = struct.Struct(f">{LOG_ID_BYTES}sQ")


def epoch_of(log_id: bytes, epoch: int) -> bytes:
    """Returns the epoch of a checkpoint: the log, and the epoch of the last record."""
    return _EPOCH.pack(log_id, epoch)


def log_and_epoch(epoch: bytes) -> tuple[bytes, int]:
    """Returns the log, and the epoch of the last record, of a checkpoint's epoch."""
    log_id, number = _EPOCH.unpack(epoch)
    return log_id, number


class Record(NamedTuple):
    """The changes of one turn, or of several in a row."""

    number: int
    epoch: int  # of the member that appended it
    content: bytes


class Position(NamedTuple):
    """The last record that a store has."""

    number: int
    epoch: int


class Log(Protocol):
    """The log of an active member."""

    def send(self, number: int, content: bytes) -> None:
        """Begins to append a record. :meth:`LoggedStore.landed` is called with the result."""

    def wait(self) -> None:
        """Returns after the result of the record on its way was reported.

        Raises:
            StoreFailed: The server did not answer in time. Whether it has the record is unknown.
        """


class LogForeign(StoreFailed):
    """The store belongs to another log, or to none."""


class Fenced(StoreFailed):
    """Another member became active, so the log takes no more records of this one."""
