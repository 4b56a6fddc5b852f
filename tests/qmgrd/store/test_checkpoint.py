"""Tests that the changes of a record are made as they were recorded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout import keys
from qmgrd.core.layout.row import RowDamaged
from qmgrd.store.checkpoint import Checkpoint, apply, content_of, read_checkpoint, write_checkpoint
from tests.memory_store import MemoryStore

CHANGES = st.lists(st.tuples(st.binary(min_size=1, max_size=3), st.none() | st.binary(max_size=9)))


@given(CHANGES)
def test_changes_are_made_in_their_order(pairs: list[tuple[bytes, bytes | None]]) -> None:
    expected: dict[bytes, bytes] = {}
    for key, value in pairs:
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = value
    tx = MemoryStore().begin()
    apply(content_of([part for pair in pairs for part in pair]), tx.put, tx.delete)
    assert dict(tx.scan(b"", b"\xff" * 9)) == expected


def test_checkpoint_is_read_as_written() -> None:
    tx = MemoryStore().begin()
    assert read_checkpoint(tx) is None
    checkpoint = Checkpoint(b"e" * 16, 1 << 40, is_last=False)
    write_checkpoint(tx, checkpoint)
    assert read_checkpoint(tx) == checkpoint
    tx.put(keys.CHECKPOINT, b"?" * 29)
    with pytest.raises(RowDamaged):
        read_checkpoint(tx)
