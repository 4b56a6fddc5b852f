"""Tests of the chain of groups, which keeps their order and leads to complete groups."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.group import chain as group_chain
from qmgrd.core.queue.group.row import NO_PLACE, GroupRow
from tests.group_player import group_id, member
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.queue.group.test_take import CountingStore

A = group_id("A")
OLDER_FIELDS = 16  # number of fields in the earlier format of a row
HIGH, LOW = keys.PLACE.pack(1, 7), keys.PLACE.pack(5, 3)


class Ranges:
    """Both ranges of keys that belong to one queue."""

    def __init__(self) -> None:
        self.tx = MemoryStore()

    def move(self, row: GroupRow, place: bytes) -> bool:
        return group_chain.move(self.tx, 1, A, row, place)

    def found(self, *, is_complete: bool, heads: list[int] | None = None) -> list[bytes]:
        heads = heads or [0] * 10
        turns = group_chain.behind(self.tx, 1, heads, is_complete=is_complete)
        return [place for place, group_id in turns if group_id == A]

    @property
    def both(self) -> tuple[list[bytes], list[bytes]]:
        return self.found(is_complete=False), self.found(is_complete=True)


def test_group_is_listed_as_complete_from_its_last_member_until_it_has_no_turn() -> None:
    ranges, row = Ranges(), GroupRow(count=2)
    assert ranges.move(row, LOW)
    assert ranges.both == ([LOW], [])
    assert not ranges.move(row, LOW)
    row.last = 2
    assert ranges.move(row, LOW)
    assert ranges.both == ([LOW], [LOW])
    row.count, row.done = 1, 1  # The first message was consumed, and the rest is still complete.
    assert ranges.move(row, HIGH)
    assert ranges.both == ([HIGH], [HIGH])
    row.count = 0
    assert ranges.move(row, HIGH)
    assert ranges.both == ([HIGH], [])
    assert ranges.move(row, NO_PLACE)
    assert ranges.both == ([], [])
    assert not ranges.tx.rows


def test_removed_group_leaves_no_rows() -> None:
    ranges, row = Ranges(), GroupRow(count=1, last=1)
    ranges.move(row, LOW)
    group_chain.take_out(ranges.tx, 1, A, row)
    assert not ranges.tx.rows


@pytest.mark.parametrize("is_complete", [False, True])
def test_groups_come_by_priority_from_the_head_of_each(is_complete: bool) -> None:
    tx, places = MemoryStore(), [keys.PLACE.pack(rank, at) for rank in (0, 5) for at in (1, 2, 3)]
    for place in places:
        row = GroupRow(count=1, last=1)
        group_chain.move(tx, 1, place.ljust(24, b"g"), row, place)
    heads = [0] * 10
    heads[4] = 3
    turns = group_chain.behind(tx, 1, heads, is_complete=is_complete)
    assert [place for place, _ in turns] == [*places[:3], places[5]]


def waiting(incomplete: int) -> tuple[CountingStore, Client]:
    """Returns a queue with incomplete groups before Z, which is complete."""
    store = CountingStore()
    manager = Manager(store, queue_defaults={"depth_max": 10**6})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    ids = [b"%d" % number for number in range(incomplete)]
    for at in range(0, incomplete, 1_000):
        batch = [record(b"", group=(x.rjust(24, b"o"), 1, False)) for x in ids[at : at + 1_000]]
        app.put_records("Q", *batch)
    app.put_records("Q", member("Z1"), member("Z2!"))
    manager.rest()
    return store, app


ASKS: list[dict[str, Any]] = [{"order": m.LOGICAL, "reader": 1}, {"order": m.PINNED}]


def first_costs(incomplete: int, way: dict[str, Any]) -> tuple[int, int]:
    """Returns the numbers of row reads and of turns until a complete group is delivered."""
    store, app = waiting(incomplete)
    app.manager.crash()  # After the restart, the daemon has forgotten the skipped groups.
    app = app.manager.connect()
    app.manager.rest()
    before = store.reads
    if way["order"] == m.PINNED:
        app.send(m.Consume(app.next_id(), "Q", 1, 1 << 20, all_available=True, **way))
    else:
        app.send(m.Get(app.next_id(), "Q", 1, 0, all_available=True, **way))
    turns = app.manager.rest()
    assert [x.body for x in app.delivered()] == [b"Z1"]
    return store.reads - before, turns


@pytest.mark.parametrize("way", ASKS)
def test_first_complete_group_costs_the_same_whatever_precedes_it(way: dict[str, Any]) -> None:
    """E11, E29: The index finds the group in the first turn."""
    few = first_costs(10, way)
    assert first_costs(5_000, way) == few
    assert few[0] < 20


def test_browse_of_complete_groups_passes_no_others() -> None:
    costs = []
    for incomplete in (10, 5_000):
        store, app = waiting(incomplete)
        before = store.reads
        request = m.Browse(0, "Q", None, 10, 1 << 20, order=m.LOGICAL, all_available=True)
        page = app.ask(m.Browse, *request[1:])
        assert (len(page["items"]), page["next"]) == (2, None)
        costs.append(store.reads - before)
    assert costs[0] == costs[1] < 20


def test_completed_group_in_front_causes_no_search_of_later_groups() -> None:
    """In an earlier version, each such group lowered the position, so the search started again."""
    costs = []
    for incomplete in (10, 5_000):
        store, app = waiting(incomplete)
        app.send(m.Consume(1, "Q", 9, 1 << 20, order=m.PINNED, all_available=True))
        app.manager.rest()
        assert [x.body for x in app.delivered()] == [b"Z1", b"Z2"]
        before = store.reads
        app.put_records("Q", record(b"end", group=(b"3".rjust(24, b"o"), 2, True)))
        app.manager.rest()
        assert [x.body for x in app.delivered()] == [b"", b"end"]
        costs.append(store.reads - before)
    assert costs[0] == costs[1]


def older(manager: Manager) -> None:
    """Changes the store to the format of a version without an index of complete groups."""
    tx = manager.store.begin()
    for key, _ in list(tx.scan(keys.SPACE_COMPLETE, keys.after(keys.SPACE_COMPLETE))):
        tx.delete(key)
    for key, data in list(rows.scan(tx, keys.SPACE_GROUP_ROW)):
        rows.put(tx, key, pack(unpack(data)[:OLDER_FIELDS]))
    tx.delete(keys.LISTED)
    manager.store.commit()


def test_groups_of_an_older_store_are_listed_once() -> None:
    _, app = waiting(30)
    manager = app.manager
    older(manager)
    assert manager.scan(keys.SPACE_COMPLETE) == []
    manager.crash()
    app = manager.connect()
    app.send(m.Get(1, "Q", 2, 60_000, order=m.LOGICAL, all_available=True, reader=1))
    manager.rest()
    assert [x.body for x in app.delivered()] == [b"Z1", b"Z2"]
    audit(manager)
    manager.crash()
    running = [row for row in manager.connect().ask(m.JobList)["jobs"] if not row["ended_us"]]
    assert running == []
