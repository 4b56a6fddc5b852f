"""Tests of plain messages and the positions of their parts. test_columns.py tests properties."""

import pytest

from qmgr_protocol import record as records
from qmgr_protocol.record import Fields, Uid
from qmgr_tables.chunk import Pair, plain
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.store.lmdb_store import ReadFailed

FULL = Fields(
    b"body", 7, b"c", {"reply_to": "R"}, Uid("QM1", 2**62), (bytes(24), 3, False), 9, 0, 5
)


def pair(fields: Fields = FULL, target: bytes = b"", flags: int = 0) -> Pair:
    head = bytearray(entries.encode_head(8, target))
    head[1] = flags
    return keys.message(1, 0, 4, 77), bytes(head) + records.encode(fields)


def test_parts_of_each_are_found_whatever_is_before_them() -> None:
    chunk, where = plain([pair(), pair(Fields(b"", uid=Uid("E", 0))), pair(target=b"FAR")])
    assert where.tolist() == [0, 1, 2]
    assert chunk.bodies.to_pylist() == [b"body", b"", b"body"]
    assert chunk.origins.to_pylist() == [b"QM1", b"E", b"QM1"]
    assert chunk.origin_texts.to_pylist() == ["QM1", "E", "QM1"]
    assert chunk.timestamp.tolist() == [2**62, 0, 2**62]
    assert chunk.envelopes == ([0, 2], [{"reply_to": "R"}] * 2)
    assert chunk.targets == ([2], ["FAR"])
    assert chunk.group_number.tolist() == [3, 3]
    assert chunk.key["arrival"].tolist() == [77] * 3


@pytest.mark.parametrize("flags", [entries.IN_ROWS, entries.NOTED, entries.SHARED, 128])
def test_what_is_more_than_its_entry_is_not_plain(flags: int) -> None:
    chunk, where = plain([pair(), pair(flags=flags), pair(flags=entries.VOLATILE)])
    assert where.tolist() == [0, 2]
    assert len(chunk) == 2


@pytest.mark.parametrize("value", [b"", b"\x02", pair()[1][:-1], bytes(5_000)])
def test_what_is_cut_or_nothing_is_not_plain(value: bytes) -> None:
    chunk, where = plain([(pair()[0], value)] * 3)
    assert (len(chunk), where.tolist()) == (0, [])
    assert chunk.bodies.to_pylist() == []


def test_key_that_no_entry_has_is_damage() -> None:
    with pytest.raises(ReadFailed, match="key has 16 bytes instead of 15"):
        plain([pair(), (pair()[0] + b"\0", b"")])


def test_layout_is_that_of_the_structs() -> None:
    chunk, _ = plain([pair()])
    head = entries.HEAD.unpack_from(pair()[1])
    assert chunk.entry[0].tolist() == head
    assert chunk.record[0].tolist() == records.HEAD.unpack_from(pair()[1], entries.HEAD_BYTES)
