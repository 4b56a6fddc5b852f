"""The place in the journal up to which the store has all turns, and the way from there to the end.

A row of the store has the number of its last turn. The journal has the records of the turns after
this one. A start applies them to the store, and so does ``qmctl store``.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from qmgr_protocol.codec import pack, unpack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.store.journal import EPOCH_BYTES, FILE, JournalElsewhere, JournalFile, JournalMissing

CONTENT_MAX_BYTES = 1 << 31
_ROW = struct.Struct(f">{EPOCH_BYTES}sQB")
_IS_LAST, _IS_ON_SERVER = 1, 2


class Checkpoint(NamedTuple):
    """The last turn that the store has, without the journal."""

    epoch: bytes  # the epoch of the records after it
    number: int
    is_last: bool  # whether the journal has no later turn
    is_on_server: bool = False  # whether the journal is a log on a server


def read_checkpoint(tx: Transaction) -> Checkpoint | None:
    """Returns the checkpoint of the store, or None if the store never had a journal.

    Raises:
        RowDamaged: The row is damaged.
    """
    row = rows.find(tx, keys.CHECKPOINT)
    if row is None:
        return None
    epoch, number, flags = _ROW.unpack(row)
    return Checkpoint(epoch, number, bool(flags & _IS_LAST), bool(flags & _IS_ON_SERVER))


def write_checkpoint(tx: Transaction, checkpoint: Checkpoint) -> None:
    """Stores *checkpoint* in the transaction that has its turns."""
    flags = _IS_LAST * checkpoint.is_last | _IS_ON_SERVER * checkpoint.is_on_server
    rows.put(tx, keys.CHECKPOINT, _ROW.pack(checkpoint.epoch, checkpoint.number, flags))


def content_of(changes: list[bytes | None]) -> bytes:
    """Returns the content of the record of *changes*.

    *changes* are keys and values in turns. The value of a deleted key is None.
    """
    content: bytes = pack(changes)
    return content


def apply(
    content: bytes, put: Callable[[bytes, bytes], object], delete: Callable[[bytes], object]
) -> int:
    """Makes the changes of a record, and returns their number."""
    changes = unpack(content, CONTENT_MAX_BYTES)
    for key, value in zip(changes[::2], changes[1::2], strict=True):
        if value is None:
            delete(key)
        else:
            put(key, value)
    return len(changes) // 2


def finish_journal(tx: Transaction, directory: Path, *, was_used: bool) -> int:
    """Makes all changes of the journal's turns in *tx*, so that the store needs no journal.

    Returns the number of these turns.

    Args:
        tx: The write transaction.
        directory: The directory of the store and the journal.
        was_used: Whether a daemon has used this directory.

    Raises:
        JournalUnreadable, RowDamaged: The turns cannot be found.
        OSError: The journal cannot be read.
    """
    checkpoint = read_checkpoint(tx)
    if checkpoint is None or checkpoint.is_last:
        return 0
    if checkpoint.is_on_server:
        raise JournalElsewhere(directory)
    path, last = directory / FILE, checkpoint.number
    if path.exists():
        journal = JournalFile(path)
        try:
            for number, content in journal.replay(checkpoint.epoch, checkpoint.number):
                apply(content, tx.put, tx.delete)
                last = number
        finally:
            journal.close()
    elif was_used:
        raise JournalMissing(path, checkpoint.number)
    write_checkpoint(tx, checkpoint._replace(number=last, is_last=True))
    return last - checkpoint.number
