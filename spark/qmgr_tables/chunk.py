"""Plain messages, thousands at a time: the positions of their parts, and whether they are valid.

A message is plain if its record is valid and stored in its entry, without a note. Such an entry has
the following layout. A few additions give the positions of the parts of all entries:

    entry head, target, record head, correlation id, group, delay, envelope, body, origin, timestamp

row.py reads all other messages. This module does not determine why a message is not plain.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import RequestError
from qmgr_protocol.name import is_name
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.store.lmdb_store import ReadFailed

Pair = tuple[bytes, bytes]
Array = np.ndarray[Any, np.dtype[Any]]

_CODES = {"B": "u1", "H": ">u2", "I": ">u4", "Q": ">u8"}


def _layout(layout: struct.Struct, names: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the fields of a big-endian *layout* as numpy types."""
    return [(name, _CODES[code]) for name, code in zip(names, layout.format[1:], strict=True)]


_KEY = np.dtype(
    [("queue", f"V{keys.POSITION_AT}"), *_layout(keys.POSITION, ("lane", "rank", "arrival"))]
)
_ENTRY = np.dtype(_layout(entries.HEAD, entries.HEAD_FIELDS))
_RECORD = np.dtype(_layout(records.HEAD, records.Head._fields))
_U32, _U64 = np.dtype(">u4"), np.dtype(">u8")
# padding that prevents a head from ending after the data
_LONGEST = bytes(_ENTRY.itemsize + 0xFF + _RECORD.itemsize)
_NOT_PLAIN = 0xFF & ~(entries.VOLATILE | entries.DELAYED | entries.REPUBLISHED | entries.AWAITED)


class Chunk:
    """Entries as they were read: their bytes in one piece, and the positions of their parts."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        """Finds the parts of *pairs*.

        The positions are valid only where :meth:`is_sound` is true.

        Raises:
            ReadFailed: A key does not have the length of an entry's key.
        """
        found, self.values = [key for key, _ in pairs], [value for _, value in pairs]
        for size in {*map(len, found)} - {_KEY.itemsize}:
            raise ReadFailed(f"key has {size} bytes instead of {_KEY.itemsize}")
        self.key = np.ndarray((len(pairs),), _KEY, b"".join(found))
        self.data = b"".join((*self.values, _LONGEST))
        sizes = np.fromiter(map(len, self.values), np.int64, len(pairs))
        self.end = np.cumsum(sizes)
        self.start = self.end - sizes
        self.entry = self._at(self.start, _ENTRY)
        self.record_at = self.start + _ENTRY.itemsize + self.entry["target_length"]
        self.record = head = self._at(self.record_at, _RECORD)
        self.correlation_at = self.record_at + _RECORD.itemsize
        self.group_at = self.correlation_at + head["correlation_length"]
        self.delay_at = self.group_at + self.is_grouped * records.GROUP.size
        is_delayed = head["flags"] & records.FLAG_DELAYED > 0
        self.envelope_at = self.delay_at + is_delayed * records.DELAY.size
        self.body_at = self.envelope_at + head["envelope_length"]
        self.origin_at = self.body_at + head["body_length"]
        self.timestamp_at = self.origin_at + head["origin_length"]

    def __len__(self) -> int:
        return len(self.values)

    def _at(self, places: Array, what: np.dtype[Any]) -> Array:
        """Returns the values of type *what* at the positions *places* of the data."""
        ends = len(self.data) - what.itemsize + 1
        raw = f"V{what.itemsize}"  # numpy copies structured types ten times slower than raw bytes.
        return np.ndarray((ends,), raw, self.data, strides=(1,))[places].view(what)

    def is_sound(self) -> Array:
        """Returns a mask of the entries that contain an intact record."""
        entry, head, flags = self.entry, self.record, self.record["group_flags"]
        group, last_in_group = records.IN_GROUP, records.IN_GROUP | records.LAST_IN_GROUP
        sound: Array = (
            (entry["version"] == entries.VERSION)
            & (entry["flags"] & _NOT_PLAIN == 0)
            & (self.timestamp_at + _U64.itemsize == self.end)
            & (head["version"] == records.VERSION)
            & (head["priority"] <= records.PRIORITY_MAX)
            & (head["flags"] & records.FLAGS_NOT_UNDERSTOOD == 0)
            & (head["correlation_length"] <= records.CORRELATION_MAX_BYTES)
            & (head["origin_length"] > 0)
            & ((flags == 0) | (flags == group) | (flags == last_in_group))
            & (head["expiry_ms"] < records.EXPIRY_END)
        )
        starts = (self.record_at - self.start + records.SUMMED_AT).tolist()
        sums = [crc32(value[start:]) for value, start in zip(self.values, starts, strict=True)]
        sound &= np.array(sums, np.uint32) == head["checksum"]
        return sound

    def is_readable(self) -> Array:
        """Returns a mask of the entries that this module can read. All entries must be intact."""
        readable = np.ones(len(self), bool)
        for where, found in (self.targets, self.envelopes):
            readable[[at for at, one in zip(where, found, strict=True) if one is None]] = False
        delayed = np.flatnonzero(self.record["flags"] & records.FLAG_DELAYED)
        delay_ms = self._at(self.delay_at[delayed], _U64)
        readable[delayed[delay_ms > records.DELAY_MAX_MS]] = False
        readable &= self.timestamp <= records.TIMESTAMP_MAX
        names = self.origins.dictionary.to_pylist()
        named = np.array([is_name(name.decode("latin-1")) for name in names], bool)
        readable &= named[self.origins.indices.to_numpy()]
        return readable

    def texts(self, starts: Array, ends: Array) -> tuple[list[int], Iterator[bytes]]:
        """Returns the entries with bytes between *starts* and *ends*, and these bytes."""
        where = np.flatnonzero(starts < ends)
        parts = zip(starts[where].tolist(), ends[where].tolist(), strict=True)
        return where.tolist(), (self.data[start:end] for start, end in parts)

    @cached_property
    def targets(self) -> tuple[list[int], list[str | None]]:
        """Returns the entries with a target, and the targets.

        None stands for a target that is not text.
        """
        where, found = self.texts(self.start + _ENTRY.itemsize, self.record_at)
        return where, [*map(_target, found)]

    @cached_property
    def envelopes(self) -> tuple[list[int], list[dict[str, Any] | None]]:
        """Returns the entries with an envelope, and the envelopes.

        None stands for an invalid envelope.
        """
        where, found = self.texts(self.envelope_at, self.body_at)
        return where, [*map(_envelope, found)]

    @cached_property
    def timestamp(self) -> Array:
        """Returns the timestamp of each UID."""
        return self._at(self.timestamp_at, _U64).astype(np.uint64)

    @cached_property
    def origins(self) -> pa.DictionaryArray:
        """Returns the origin of each UID."""
        return self._parts.take(_every_third(len(self), 1)).dictionary_encode()

    @cached_property
    def origin_texts(self) -> pa.StringArray:
        """Returns the origins as text. All entries must be readable."""
        return self.origins.dictionary.cast(pa.string()).take(self.origins.indices)

    @property
    def bodies(self) -> pa.BinaryArray:
        """Returns a copy of the bodies."""
        return self._parts.take(_every_third(len(self), 0))

    @cached_property
    def _parts(self) -> pa.BinaryArray:
        """Returns the body of each entry, its origin, and the bytes up to the next body."""
        ends = np.stack((self.body_at, self.origin_at, self.timestamp_at), 1).ravel()
        ends = np.append(ends, len(self.data)).astype(np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), 3 * len(self), buffers)

    @property
    def is_grouped(self) -> Array:
        """Returns a mask of the messages that are in a group."""
        return self.record["group_flags"] > 0

    @property
    def group_number(self) -> Array:
        """Returns the group numbers of the messages that are in a group."""
        return self._at(self.group_at[self.is_grouped] + records.GROUP_ID_BYTES, _U32)


def plain(pairs: Sequence[Pair]) -> tuple[Chunk, Array]:
    """Returns the plain entries of *pairs*, and their indices.

    Raises:
        ReadFailed: A key does not have the length of an entry's key.
    """
    where, chunk = np.arange(len(pairs)), Chunk(pairs)
    for check in (Chunk.is_sound, Chunk.is_readable):
        passed = check(chunk)
        if not passed.all():
            where, pairs = where[passed], [*compress(pairs, passed)]
            chunk = Chunk(pairs)
    return chunk, where


def _every_third(count: int, first: int) -> pa.Array:
    return pa.array(np.arange(first, 3 * count, 3, dtype=np.int32))


def _target(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _envelope(data: bytes) -> dict[str, Any] | None:
    try:
        return records.unpack_envelope(data)
    except RequestError:
        return None
