"""The redo journal in a local file: one write and one flush make a record durable.

    file     record 18 │ record 19 │ record 20, torn │ record 11 │ 12 │ zeros ...
             ▲ after the checkpoint of record 17     ▲ left over from before the checkpoint

    record   head    magic, size of the content, number of the record, epoch, CRC-32
             content the changes of one turn, or of several in a row
             zeros   up to a multiple of BLOCK_BYTES

Three orders make a crash between any two writes harmless:

1. Record *n* is flushed before anything of its turns leaves the process, and before record *n + 1*
   is written. So only the last record can be torn, and nobody has seen its turns. A damaged record
   with a later record after it is not torn but damage, and the store is refused.
2. The store is flushed up to record *n* before a record up to *n* is overwritten. So the records
   after the last one in the store are always complete, and they begin at offset 0.
3. The file has its size, and its blocks are written, before the first record. So an append changes
   no metadata of the file system, and cannot find the disk full.

A block belongs to one record. So a torn write of a record cannot damage the one before it. Each
start has its own epoch, stored with the checkpoint. So records of a time before a restored
snapshot are never mistaken for later ones. A snapshot and a store that was closed say that they
need no journal (``Checkpoint.is_last``).
"""

import os
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from qmgr_protocol.checksum import crc32
from qmgrd.store.files import status_of, sync
from qmgrd.store.lmdb_store import LOCK_FILE

BLOCK_BYTES = 4_096  # the unit in which disks write
EPOCH_BYTES = 16
FILE = "journal"  # its name in the directory of the store
_HEAD = struct.Struct(f">4sIQ{EPOCH_BYTES}s")
_CHECK = struct.Struct(">I")
_HEAD_BYTES = _HEAD.size + _CHECK.size
_MAGIC = b"QREC"
_PAD = bytes(BLOCK_BYTES)
_FILL_BYTES = 1 << 20
_FLUSHES = 3  # the shortest of them is the time of a flush


class JournalUnreadable(Exception):
    """The turns after the last checkpoint cannot be read."""


class JournalDamaged(JournalUnreadable):
    """A record is damaged or missing, and a record after it is not."""

    def __init__(self, path: Path, number: int, later: int) -> None:
        super().__init__(
            f"{path}: the record of turn {number} is damaged or missing, but that of turn "
            f"{later} is intact: restore a snapshot; or, to lose turn {number} "
            f"and all later ones, remove {path} and {path.parent.parent / LOCK_FILE}"
        )


class JournalMissing(JournalUnreadable):
    """The file of the journal is missing, and the store may lack turns that were in it."""

    def __init__(self, path: Path, number: int) -> None:
        super().__init__(
            f"{path} is missing, so the turns after {number} may be lost: put the file back, or "
            f"restore a snapshot; or, to go on without them, remove "
            f"{path.parent.parent / LOCK_FILE}"
        )


class JournalElsewhere(JournalUnreadable):
    """The journal is on a server, so a local one must not go on with the store."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"the journal of {directory} is on a server: give journal.url, or move the journal "
            "back to a local file with qmctl journal move"
        )


class JournalFile:
    """The file of the journal, which one process uses.

    Invariant: the records from offset 0 to ``_end`` have the epoch and consecutive numbers.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file.

        Raises:
            OSError: The file does not exist, or cannot be read and written.
        """
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._fd).st_size // BLOCK_BYTES * BLOCK_BYTES
        self._epoch = bytes(EPOCH_BYTES)
        self._end = 0

    def has_room(self, content_bytes: int) -> bool:
        """Returns whether a record with so many bytes of content fits into the file."""
        return self._end + _blocks_bytes(content_bytes) <= self.size_bytes

    def append(self, number: int, content: bytes) -> None:
        """Writes record *number*, for which the file has room. Returns after it is on disk.

        Raises:
            OSError: Whether the record is on disk is unknown.
        """
        size = _HEAD_BYTES + len(content)
        padding = -size % BLOCK_BYTES
        head = _HEAD.pack(_MAGIC, len(content), number, self._epoch)
        check = _CHECK.pack(crc32(content, crc32(head)))
        parts = (head, check, content, _PAD[:padding])
        written = os.pwritev(self._fd, parts, self._end)
        if written != size + padding:
            raise OSError(f"{self.path}: {written} of {size + padding} bytes were written")
        os.fdatasync(self._fd)
        self._end += size + padding

    def replay(self, epoch: bytes, after: int) -> Iterator[tuple[int, bytes]]:
        """Yields the number and content of each record of *epoch* after turn *after*.

        A torn record ends the file.

        Raises:
            JournalDamaged: A record is damaged, and a record after it is not.
            OSError: The file cannot be read.
        """
        at, number = 0, after + 1
        while (content := self._content(at, epoch, number)) is not None:
            yield number, content
            at += _blocks_bytes(len(content))
            number += 1
        later = self._later(at, epoch, number)
        if later is not None:
            raise JournalDamaged(self.path, number, later)

    def trim(self, epoch: bytes) -> None:
        """Removes all records, because the store has their turns on disk.

        The next record begins the file again, with *epoch*.
        """
        self._epoch = epoch
        self._end = 0

    def flush_s(self) -> float:
        """Returns the time that a flush takes. Only for a journal without records.

        Raises:
            OSError: The file cannot be written.
        """
        taken = []
        for _ in range(_FLUSHES):
            start_s = time.perf_counter()
            os.pwrite(self._fd, _PAD, 0)
            os.fdatasync(self._fd)
            taken.append(time.perf_counter() - start_s)
        return min(taken)

    def is_removed(self) -> bool:
        """Returns whether no directory has the file any more.

        Raises:
            StoreFailed: The file system failed.
        """
        return not status_of(self._fd, self.path).st_nlink

    def close(self) -> None:
        """Closes the file."""
        os.close(self._fd)

    def _content(self, at: int, epoch: bytes, number: int) -> bytes | None:
        """Returns the content of the record at *at*, or None if it is not this record."""
        head = os.pread(self._fd, _HEAD_BYTES, at)
        if len(head) < _HEAD_BYTES:
            return None
        magic, size, found, of = _HEAD.unpack_from(head)
        if (magic, found, of) != (_MAGIC, number, epoch) or at + size > self.size_bytes:
            return None
        content = os.pread(self._fd, size, at + _HEAD_BYTES)
        (check,) = _CHECK.unpack_from(head, _HEAD.size)
        is_whole = len(content) == size and crc32(content, crc32(head[: _HEAD.size])) == check
        return content if is_whole else None

    def _later(self, at: int, epoch: bytes, number: int) -> int | None:
        """Returns the number of a whole record after *at* that is later than *number*, or None."""
        for block in range(at + BLOCK_BYTES, self.size_bytes, BLOCK_BYTES):
            head = os.pread(self._fd, _HEAD.size, block)
            if len(head) < _HEAD.size:
                break
            magic, _, found, of = _HEAD.unpack(head)
            if magic == _MAGIC and of == epoch and found > number:
                later: int = found
                if self._content(block, epoch, later) is not None:
                    return later
        return None


def create_journal(path: Path, size_bytes: int) -> None:
    """Creates the file with *size_bytes*, completely or not at all, with all blocks written.

    Raises:
        OSError: The file cannot be written, or the disk is full.
    """
    new = path.with_name(f"{path.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for at in range(0, size_bytes, _FILL_BYTES):
            os.pwrite(fd, bytes(min(_FILL_BYTES, size_bytes - at)), at)
        os.fsync(fd)
    finally:
        os.close(fd)
    new.rename(path)
    sync(path.parent)


def _blocks_bytes(content_bytes: int) -> int:
    size = _HEAD_BYTES + content_bytes
    return size + -size % BLOCK_BYTES
