"""Messages of every kind as a store may hold them, intact or damaged, for Hypothesis."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.codec import pack
from qmgr_protocol.record import Fields, Uid
from qmgr_tables.partition import Run
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.entry import Entry
from qmgrd.core.queue import notes
from qmgrd.snapshot.finder import StoredSnapshot
from tests.memory_store import MemoryStore
from tests.qmgr_protocol.strategies import NAMES, RECORD_FIELDS, TEXTS, U32, VALUES

SNAPSHOT = StoredSnapshot(
    "/snap", "QM1-1-1-7", "QM1", 7, 0, "", (), 1_800_000_000_000, 1_700_000_000_000_000
)
TIMES = st.sampled_from([0, 1, 2**40, 1_800_000_060_000, 2**63, 2**64 - 1])
COUNTS = st.sampled_from([0, 1, 0xFFFF])
BYTE = st.integers(0, 0xFF)
NOTES = st.fixed_dictionaries(
    {},
    optional={
        "code": st.sampled_from([609, 1, "x"]),
        "reason": TEXTS,
        "queue": VALUES,
        "us": TIMES,
        "failed": VALUES,
        "retries": st.integers(0, 3),
    },
)
RUNS = st.builds(
    Run,
    NAMES,
    st.just(1),
    st.sampled_from(["local", "transmission", "publications"]),
    st.sampled_from([0, 1, 2, 3, 15]),
    st.integers(0, 9),
    st.just(0),
    st.just(2**63),
    st.sampled_from([(), ((2, 5),)]),
)
# An intact record is read unchanged, even if its content is invalid.
TWISTS = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(2),
        "priority": BYTE,
        "flags": BYTE,
        "expiry_ms": TIMES,
        "correlation_length": BYTE,
        "group_flags": BYTE,
        "envelope_length": st.integers(0, 99),
        "body_length": U32,
        "origin_length": BYTE,
    },
)


class Stored(NamedTuple):
    """A stored message, with all its parts except its key."""

    entry: Entry
    record: bytes
    note: dict[str, Any] | None
    place: str  # location of the record
    damaged_at: float | None  # relative position of the damage in the value, from 0 to 1
    cut: bool

    def write(self, store: MemoryStore, arrival: int) -> bytes:
        """Stores the other parts of the entry with *arrival*. Returns the value of the entry."""
        entry, record = self.entry._replace(rest=self.record), self.record
        trailer = entries.uid_trailer(entry)
        if self.note is not None:
            notes.write(store, 1, arrival, notes.encode(self.note))
        if self.place == "rows":
            rest = entries.write_rows(store, arrival, record, trailer)
            entry = entry._replace(flags=entry.flags | entries.IN_ROWS, rest=rest)
        elif self.place == "publication":
            position = keys.POSITION.pack(0, 5, arrival)
            store.put(keys.publication_uid(trailer), position)
            store.put(keys.publication_at(position), entries.encode(entry))
            rest = entries.rest_of_reference(len(record), trailer)
            entry = entry._replace(flags=entry.flags | entries.SHARED, target="", rest=rest)
        return self._harmed(entries.encode(entry))

    def _harmed(self, value: bytes) -> bytes:
        if self.damaged_at is None:
            return value
        at = int(self.damaged_at * (len(value) - 1))
        return value[:at] + (b"" if self.cut else bytes([value[at] ^ 0x41]) + value[at + 1 :])


@st.composite
def _records(draw: st.DrawFn) -> bytes:
    fields: Fields = draw(RECORD_FIELDS)
    twisted = draw(st.integers(0, 9))
    uid = Uid(draw(NAMES), draw(TIMES) & (2**63 - 1))
    record = records.encode(fields._replace(uid=uid))
    if twisted == 0:
        return records.encode(fields._replace(uid=None))
    if twisted == 1:
        head = records.Head._make(records.HEAD.unpack_from(record))._replace(**draw(TWISTS))
        return summed(records.HEAD.pack(*head) + record[records.HEAD_BYTES :])
    if twisted == 2:
        strange = draw(st.sampled_from([b"no name!", b"\xff", b"A" * 65, b""]))
        trailer = strange + records.TIMESTAMP.pack(draw(TIMES))
        record = records.encode(fields._replace(uid=None)) + trailer
        return summed(record[:4] + bytes([len(strange)]) + record[5:])
    if twisted == 3:
        no_map = draw(st.sampled_from([b"\xc1", pack([1]), pack({"headers": 1}), b"\xff\xff"]))
        bare = records.encode(fields._replace(envelope={}, body=b"", uid=None))
        head = records.Head._make(records.HEAD.unpack_from(bare))._replace(
            envelope_length=len(no_map), origin_length=2
        )
        rest = bare[records.HEAD_BYTES :] + no_map + b"QM" + records.TIMESTAMP.pack(7)
        return summed(records.HEAD.pack(*head) + rest)
    return record


def summed(record: bytes) -> bytes:
    """Returns *record* with a correct checksum."""
    return crc32(record[records.SUMMED_AT :]).to_bytes(4, "big") + record[4:]


@st.composite
def stored(draw: st.DrawFn) -> Stored:
    """Draws a stored message."""
    note = draw(st.none() | NOTES)
    flags = draw(st.sampled_from([0, entries.VOLATILE, entries.DELAYED, entries.AWAITED]))
    if note is not None:
        flags |= entries.NOTED
    target = draw(st.sampled_from(["", "", "FAR", "flights/é"]))
    entry = Entry(
        flags, 0, draw(COUNTS), draw(COUNTS), draw(TIMES), draw(TIMES), draw(TIMES), target, b""
    )
    return Stored(
        entry,
        draw(_records()),
        note,
        draw(st.sampled_from(["entry", "entry", "entry", "rows", "publication"])),
        draw(st.none() | st.none() | st.floats(0, 1)),
        draw(st.booleans()),
    )
