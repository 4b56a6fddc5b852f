"""The small rows of the store. Each row has a seal that detects damage.

    value = row, CRC-32 (as of zlib, u32) of the key and the row

The seal covers the key, so it also detects a row that is stored under a wrong key. Entries and
pieces of long records have no seal, because records contain a checksum. A row of the UID index is
checked against its entry.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import ErrorCode, FrameMalformed, RequestError
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

SEAL_BYTES = 4

_SINGLE = {
    keys.STORE: "the store row",
    keys.CLOCK: "the clock row",
    keys.CLEAN: "the mark of a clean stop",
    keys.NEXT_QUEUE: "the id of the next queue",
    keys.FAN_OUT: "the progress of the fan-out",
    keys.HISTORY: "the state of the history",
    keys.SECRET: "the secret of sessions and leases",
    keys.LISTED: "the mark that complete groups are listed",
    keys.GUARDED: "the mark that users exist",
    keys.CHECKPOINT: "the last checkpoint of the journal",
}
_BY_NAME = {
    keys.SPACE_QUEUE: "the definition of queue",
    keys.SPACE_LINK: "the definition of link",
    keys.SPACE_PEER: "the store id of queue manager",
    keys.SPACE_TEMPLATE: "the definition of template",
    keys.SPACE_TOPIC: "the definition of topic",
    keys.SPACE_USER: "the row of user",
    keys.SPACE_ROLE: "the row of role",
    keys.SPACE_RETAINED: "the retained publication of topic",
    keys.SPACE_CURSOR: "the export cursor",
}
_BY_NUMBER = {
    keys.SPACE_COUNTERS: "the counters of queue",
    keys.SPACE_LINK_OUTBOX: "the sending window of queue",
    keys.SPACE_JOB: "job",
    keys.SPACE_HISTORY: "history row",
    keys.SPACE_HOLDERS: "the reference count of publication",
    keys.SPACE_ASIDE: "the set-aside item",
}
_BY_BYTES = {
    keys.SPACE_ORIGIN: "the highest timestamp of an origin",
    keys.SPACE_PRODUCER: "the window of producer",
    keys.SPACE_LINK_INBOX: "the receiving window of stream",
    keys.SPACE_NOTE: "the note of a message",
    keys.SPACE_GROUP_ROW: "the row of group",
    keys.SPACE_DUE: "a row of the schedule",
}


class RowDamaged(RequestError):
    """A row has changed since it was written.

    A start then refuses the store, and a request fails.
    """

    def __init__(self, what: str, why: str = "its checksum is wrong") -> None:
        super().__init__(
            ErrorCode.STORE_DAMAGED, f"{what}: {why}; restore the store from a snapshot"
        )
        self.why = why


class RowMissing(RowDamaged):
    """A required row is missing."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "it is missing")


class RowInvalid(RowDamaged):
    """A row is intact, but its content is invalid. The row, or its subject, is set aside."""


# Errors that decoding an invalid row may raise.
NONSENSE = (
    FrameMalformed,
    RequestError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    struct.error,
)


@contextmanager
def decoding(key: bytes) -> Iterator[None]:
    """Raises RowInvalid if the block finds that the row under *key* is invalid."""
    try:
        yield
    except RowDamaged:
        raise
    except NONSENSE as error:
        raise RowInvalid(name_of(key), f"{type(error).__name__}: {error}") from error


def seal(key: bytes, row: bytes) -> bytes:
    """Returns the value that stores *row* under *key*."""
    return row + crc32(row, crc32(key)).to_bytes(SEAL_BYTES, "big")


def unseal(key: bytes, value: bytes, queue: str = "") -> bytes:
    """Returns the row in *value*, which is stored under *key*.

    Args:
        key: The key of the row.
        value: The stored value.
        queue: The name of the queue whose id is in *key*, if the name is known.

    Raises:
        RowDamaged: The key or the value has changed.
    """
    row = value[:-SEAL_BYTES]
    if seal(key, row) != value:
        raise RowDamaged(name_of(key, queue))
    return row


def put(tx: Transaction, key: bytes, row: bytes) -> None:
    """Stores *row* under *key*."""
    # The same value as of seal(), without a call, because each turn stores several rows.
    tx.put(key, row + crc32(row, crc32(key)).to_bytes(SEAL_BYTES, "big"))


def find(tx: Transaction, key: bytes, queue: str = "") -> bytes | None:
    """Returns the row under *key*, or None.

    Raises:
        RowDamaged: The row is damaged.
    """
    value = tx.get(key)
    return None if value is None else unseal(key, value, queue)


def get(tx: Transaction, key: bytes, queue: str = "") -> bytes:
    """Returns the row under *key*, which must exist.

    Raises:
        RowDamaged: The row is damaged.
        RowMissing: The row does not exist.
    """
    row = find(tx, key, queue)
    if row is None:
        raise RowMissing(name_of(key, queue))
    return row


def scan(tx: Transaction, space: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and rows of *space*.

    Raises:
        RowDamaged: A row is damaged.
    """
    for key, value in tx.scan(space, keys.after(space)):
        yield key, unseal(key, value)


def name_of(key: bytes, queue: str = "") -> str:
    """Returns a description of the row under *key* for operators."""
    space, rest = key[keys.SPACE], key[keys.REST]
    if space in _BY_NAME:
        return f"{_BY_NAME[space]} {rest.decode(errors='replace')}"
    if space in _BY_NUMBER:
        number = int.from_bytes(rest, "big")
        return f"{_BY_NUMBER[space]} " + (f"{queue} (id {number})" if queue else f"id {number}")
    if space in _BY_BYTES:
        return f"{_BY_BYTES[space]} {rest.hex()}"
    return _SINGLE.get(key, f"the row {key.hex()}")
