"""Tests that damage to the row or turn of a group is found, and that valid groups pass."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.verify.verify import verify
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.shot import managed
from tests.qmgrd.snapshot.stores import (
    AWAY,
    DAY_MS,
    GAP,
    ON,
    STOPPED,
    Change,
    delete,
    edit,
    faults,
    put,
)

GROUPS = 6


def key_of(group_id: bytes) -> bytes:
    return keys.group_row(GROUPS, group_id)


def changed(group_id: bytes, change: Callable[[GroupRow], None]) -> Change:
    """Changes the row of a group, with a valid seal."""

    def new(data: bytes) -> bytes:
        row = GroupRow.decode(data)
        change(row)
        return row.encode()

    return edit(key_of(group_id), new)


def having(group_id: bytes, **fields: object) -> Change:
    """Changes fields of the row of a group."""

    def do(row: GroupRow) -> None:
        for name, value in fields.items():
            setattr(row, name, value)

    return changed(group_id, do)


CHAIN = keys.of_queue(keys.SPACE_CHAIN, GROUPS)
ELSEWHERE = keys.chain(GROUPS, keys.PLACE.pack(5, 99))
COMPLETE = keys.of_queue(keys.SPACE_COMPLETE, GROUPS)
LISTED_ELSEWHERE = keys.complete(GROUPS, keys.PLACE.pack(5, 99))
DUE = keys.SPACE_DUE
ORPHAN = keys.group(GROUPS, ON, 7)
NOWHERE = keys.POSITION.pack(keys.LANE_GROUPED, 5, 99)
RUN = keys.group(GROUPS, ON, 9)
SHORT = keys.of_queue(keys.SPACE_GROUP, GROUPS) + b"short"
FORGET = keys.due(7, GROUPS, keys.LANE_GROUP, 0, 1)

DAMAGES: list[tuple[str, bytes, Change]] = [
    ("group-row", key_of(ON), having(ON, count=3)),
    ("group-row", key_of(GAP), having(GAP, waiting=0)),
    ("group-row", key_of(GAP), having(GAP, highest=3)),
    ("group-row", key_of(ON), having(ON, last=2)),
    ("group-row", key_of(ON), having(ON, last=4, highest=4)),
    ("group-row", key_of(ON), having(ON, done=2)),
    ("group-row", key_of(ON), having(ON, done=0)),  # With this value, the member would not be next.
    ("group-row", key_of(ON), having(ON, is_paused=True)),
    ("group-row", key_of(STOPPED), having(STOPPED, is_paused=False)),
    ("group-row", key_of(GAP), having(GAP, done=1)),
    ("group-row", key_of(ON), having(ON, place=b"")),
    ("group-row", key_of(ON), delete(key_of(ON))),
    ("chain-missing", CHAIN, delete(CHAIN)),
    ("chain-missing", ELSEWHERE, having(ON, place=keys.PLACE.pack(5, 99))),
    ("chain-orphan", ELSEWHERE, put(ELSEWHERE, ON)),
    ("chain-orphan", ELSEWHERE, put(ELSEWHERE, b"U" * 24)),
    ("group-row", key_of(ON), having(ON, is_listed=False)),
    ("complete-missing", COMPLETE, delete(COMPLETE)),
    ("chain-orphan", LISTED_ELSEWHERE, put(LISTED_ELSEWHERE, ON)),
    ("chain-orphan", LISTED_ELSEWHERE, put(LISTED_ELSEWHERE, b"U" * 24)),
    ("seal-group", key_of(ON), stores.flip(key_of(ON))),
    ("content", key_of(ON), edit(key_of(ON), lambda row: b"\x93\x01\x02\xa1x")),
    ("content", key_of(ON), edit(key_of(ON), lambda row: b"\x07")),
    ("select-orphan", ORPHAN, put(ORPHAN, NOWHERE)),
    ("select-orphan", ORPHAN, put(ORPHAN, keys.POSITION.pack(keys.LANE_READY, 5, 2))),
    ("select-orphan", ORPHAN, put(RUN, NOWHERE + b"\0\0\0\3")),
    ("key", RUN, put(RUN, NOWHERE + b"\0\0\0\12")),
    ("key", SHORT, put(SHORT, NOWHERE)),
    ("due-orphan", FORGET, put(FORGET, AWAY)),
    ("due-orphan", FORGET, put(FORGET, b"U" * 24)),
    ("due-missing", DUE, having(AWAY, due_ms=7)),
    (
        "due-missing",
        DUE,
        lambda txn: txn.delete(next(key for key, of in stores.rows_in(txn, DUE) if of == AWAY)),
    ),
]


@pytest.mark.parametrize(("fault", "key", "damage"), DAMAGES)
def test_damage_is_found_as_itself_and_once(
    store: Path, fault: str, key: bytes, damage: Change
) -> None:
    stores.check_found(store, fault, key, damage)


def test_message_that_is_damaged_counts_as_one_of_its_group(store: Path) -> None:
    key = keys.lane(GROUPS, keys.LANE_GROUPED)
    stores.change(store, stores.flip(key, -20))
    assert [fault for fault, _ in faults(verify(store))] == ["record"]


def test_delayed_message_outside_its_group_is_valid(tmp_path: Path) -> None:
    """A message whose number is in use on its queue counts as a message without a group."""
    with managed(tmp_path) as manager:
        app = manager.connect()
        for queue in ("A", "B"):
            app.ask(m.QueueCreate, queue)
            app.put(queue, b"x", group=(ON, 1, False))
        app.ask(m.QueueMove, "A", "B")
        while any(row["state"] == "running" for row in app.ask(m.JobList)["jobs"]):
            manager.turn()
        lanes = {key[5] for key, _ in manager.scan(keys.of_queue(keys.SPACE_MESSAGE, 2))}
        manager.rest()
    assert lanes == {keys.LANE_READY, keys.LANE_GROUPED}
    verdict = verify(tmp_path)
    assert (verdict.findings.kept, verdict.messages) == ([], 2)


@pytest.mark.parametrize("is_swept", [False, True])
def test_groups_that_a_restart_lost_are_sound(tmp_path: Path, *, is_swept: bool) -> None:
    with managed(tmp_path) as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        for number in (1, 2, 3):
            flags = records.FLAG_NOT_PERSISTENT if number == 2 else 0
            app.put("Q", b"x", group=(ON, number, number == 3), flags=flags)
        app.put("Q", b"x", group=(GAP, 1, True), flags=records.FLAG_NOT_PERSISTENT)
        manager.restart()
        if is_swept:
            manager.rest()
    assert verify(tmp_path).findings.kept == []


def test_groups_on_their_way_over_a_link_are_messages_like_others(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        app = manager.connect()
        app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:7470"], "stopped": True})
        app.ask(m.QueueCreate, "F@NYC")
        app.put("F@NYC", b"x", group=(ON, 1, False))
        app.put("F@NYC", b"x", group=(ON, 2, True), delay_ms=DAY_MS)
        manager.rest()
    verdict = verify(tmp_path)
    assert (verdict.findings.kept, verdict.messages) == ([], 2)
