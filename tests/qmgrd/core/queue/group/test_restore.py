"""Tests that groups with invalid rows are restored from their messages."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.group.restore import read, restored
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, record

GROUP = b"g" * 24


def put(app: Client, *numbers: int) -> None:
    for number in numbers:
        assert not app.put_records("Q", record(b"%d" % number, group=(GROUP, number, False)))


def poison(app: Client, at: int, value: Any) -> None:
    tx = app.manager.store.begin()
    key = keys.group_row(app.manager.queue("Q").id, GROUP)
    row = unpack(rows.find(tx, key) or b"")
    row[at] = value
    rows.put(tx, key, pack(row))
    app.manager.store.commit()


@pytest.mark.parametrize(("at", "value"), [(0, "x"), (2, -1), (3, [[1]]), (10, 7), (12, 2**64 - 1)])
def test_invalid_row_is_restored_from_the_members(app: Client, at: int, value: Any) -> None:
    put(app, 1, 2, 3)
    app.ack(*app.get("Q"))
    poison(app, at, value)
    app.manager.crash()
    app = app.manager.connect("again")
    put(app, 4)
    app.manager.rest()
    assert (
        "the stored state of a group was invalid: counted again"
        in [note.event for note in app.manager.last.notes]
        or app.ask(m.GroupList, "Q")["groups"][0]["count"] == 3
    )
    assert [x.body for x in app.get("Q", 9)] == [b"2", b"3", b"4"]


def test_unknown_group_is_not_restored() -> None:
    assert read(MemoryStore(), 1, "Q", GROUP, {}) == (None, b"")


def test_group_without_members_is_empty() -> None:
    assert restored(MemoryStore(), 1, GROUP).is_empty
