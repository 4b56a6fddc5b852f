"""Tests that the history records the events of messages, and drops old rows."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import history as wire
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.history import PENDING_MS, History
from tests.disk_stores import disk_store
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.past import brief, history_of, replay, rows_stored, stored

SMALL = {"bytes_max": 64 << 10, "age_max_ms": 60_000}


def opened(**sections: Any) -> tuple[Manager, Client]:
    manager = Manager(**sections)
    app = manager.connect("app")
    app.ask(m.QueueCreate, "Q", {"accounting": "on"})
    return manager, app


def test_queue_keeps_no_history_by_default() -> None:
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"a")
    app.ack(*app.get("Q"))
    assert history_of(manager) == []
    assert manager.scan(keys.HISTORY) == []


def test_life_of_a_message() -> None:
    manager, app = opened()
    app.put("Q", b"body", priority=7)
    manager.advance(2_000)
    (delivery,) = app.get("Q")
    manager.advance(500)
    app.ack(delivery)
    put, delivered, settled = history_of(manager)
    assert [put.event, delivered.event, settled.event] == ["put", "delivered", "settled"]
    assert {told.message_id for told in (put, delivered, settled)} == {str(delivery.uid)}
    assert {told.size for told in (put, delivered, settled)} == {len(delivery.record)}
    assert {told.priority for told in (put, delivered, settled)} == {7}
    assert delivered.at_us - put.at_us == 2_000_000 == delivered.age_us
    assert settled.at_us - delivered.at_us == 500_000
    assert (put.peer, delivered.peer, settled.peer) == ("", "app", "app")


def test_batches_are_recorded_message_by_message_and_stay_small() -> None:
    manager, app = opened()
    app.put_records("Q", *(record(b"x" * 256) for _ in range(1_000)))
    taken = [one for _ in range(10) for one in app.get("Q", 100)]
    app.ack(*taken)
    told = history_of(manager)
    assert [one.arrival for one in told if one.event == "settled"] == list(range(1, 1_001))
    assert [one.message_id for one in told if one.event == "put"] == [str(d.uid) for d in taken]
    assert sum(len(value) for _, value in manager.scan(keys.SPACE_HISTORY)) < 10_000


def test_delivery_alone_is_written_only_after_a_wait() -> None:
    manager, app = opened()
    app.put("Q", b"a")
    before = rows_stored(manager)
    delivery = app.get("Q")
    assert rows_stored(manager) == before
    assert manager.turns.broker.next_timer_ms() == manager.now().ms + PENDING_MS
    manager.turn(PENDING_MS)
    assert len(rows_stored(manager)) == len(before) + 1
    assert [one.event for one in history_of(manager)] == ["put", "delivered"]
    assert delivery


def test_failed_message_returns_and_becomes_a_dead_letter() -> None:
    manager, app = opened()
    app.ask(m.QueueAlter, "Q", {"backout_threshold": 2})
    app.put("Q", b"a")
    for _ in range(2):
        app.release(*app.get("Q"))
    told = [one for one in history_of(manager) if one.queue == "Q"]
    assert [one.event for one in told] == [
        "put",
        "delivered",
        "returned",
        "delivered",
        "dead-lettered",
    ]
    assert (told[2].delivered, told[2].failed) == (1, 1)
    assert told[-1].target == "SYSTEM.DEAD.LETTERS"
    assert told[-1].code == ErrorCode.BACKOUT_THRESHOLD_REACHED


def test_expiry_delay_purge_move_and_overflow_are_recorded() -> None:
    manager, app = opened()
    app.ask(m.QueueCreate, "TO", {"accounting": "on"})
    app.put("Q", b"expires", expiry_ms=1_000)
    app.put("Q", b"delayed", delay_ms=2_000)
    manager.turn(1_000)
    manager.turn(1_000)
    assert brief(manager) == [("put", 1), ("put", 2), ("expired", 1), ("available", 2)]
    app.ask(m.QueueMove, "Q", "TO")
    manager.rest()
    assert brief(manager)[-1] == ("moved", 2)
    assert brief(manager, "TO") == [("put", 1)]
    app.put("Q", b"purged")
    app.ask(m.QueuePurge, "Q")
    manager.rest()
    assert brief(manager)[-1] == ("removed", 3)
    app.ask(m.QueueAlter, "Q", {"depth_max": 1, "overflow": "discard-oldest"})
    app.put("Q", b"old")
    app.put("Q", b"new")
    last = [one for one in history_of(manager) if one.event == "removed"][-1]
    assert (last.arrival, last.code) == (4, ErrorCode.QUEUE_FULL)


def test_loss_at_a_restart_is_recorded() -> None:
    manager, app = opened()
    app.put("Q", b"volatile", flags=records.FLAG_NOT_PERSISTENT)
    manager.crash()
    manager.rest()
    assert brief(manager)[-1] == ("lost", 1)


def test_damage_is_recorded() -> None:
    manager, app = opened()
    app.put("Q", b"rots")
    tx = manager.store.begin()
    key = keys.message(manager.queue("Q").id, keys.LANE_READY, 4, 1)
    tx.put(key, tx.get(key)[:-1] + b"?")
    manager.store.commit()
    assert app.get("Q") == []
    assert brief(manager)[-1] == ("damaged", 1)


def test_units_groups_and_publications_are_recorded() -> None:
    manager, app = opened()
    app.ask(m.QueueAlter, "SYSTEM.PUBLICATIONS", {"accounting": "on"})
    app.ask(m.TopicSet, "a", {"redelivery_limit": 0})
    app.ask(m.Subscribe, "a/#", ":s", "", {"accounting": "on"})
    app.put("/a/b", b"x")
    manager.rest()
    app.release(*app.get(":s"))
    app.ask(m.Republish)
    manager.rest()
    app.ack(*app.get(":s"))
    manager.rest()
    assert [event for event, _ in brief(manager, ":s")] == [
        "put",
        "delivered",
        "parked",
        "republished",
        "delivered",
        "settled",
    ]
    published = [one for one in history_of(manager) if one.queue == "SYSTEM.PUBLICATIONS"]
    assert [(one.event, one.target) for one in published] == [
        ("published", "a/b"),
        ("settled", "a/b"),
    ]


def test_history_matches_the_stored_messages_over_crashes() -> None:
    manager, app = opened(queue_defaults={"accounting": "on"})
    app.ask(m.QueueCreate, "OTHER", {"backout_threshold": 1})
    for number in range(30):
        app.put("Q", b"%d" % number, priority=number % 10, delay_ms=50 * (number % 3))
        app.put("OTHER", b"%d" % number, flags=number % 2 * records.FLAG_NOT_PERSISTENT)
        if number % 4 == 0:
            app.ack(*app.get("Q"))
        if number % 5 == 0:
            app.release(*app.get("OTHER"))
        if number % 11 == 10:
            manager.crash(100)
            app = manager.connect("app")
        manager.turn(40)
        manager.rest()
    told = history_of(manager)
    queues = "Q", "OTHER", "SYSTEM.DEAD.LETTERS"
    ids = {manager.queue(name).id for name in queues}
    assert {place for place in replay(told) if place[0] in ids} == stored(manager, *queues)


def test_rows_are_removed_once_all_cursors_have_passed_them() -> None:
    manager, app = opened()
    for _ in range(5):
        app.put("Q", b"x")
    last = rows_stored(manager)[-1]
    app.ask(m.CursorCommit, "A", 0)
    app.ask(m.CursorCommit, "B", 0)
    app.ask(m.CursorCommit, "A", last)
    app.put("Q", b"x")
    assert rows_stored(manager)[0] == 1
    app.ask(m.CursorCommit, "B", 2)
    app.put("Q", b"x")
    assert rows_stored(manager)[0] == 3
    manager.crash()
    app = manager.connect()
    shown = app.ask(m.HistoryShow)
    assert [(row["cursor"], row["position"]) for row in shown["cursors"]] == [("A", last), ("B", 2)]
    assert shown["first"] == 3
    app.ask(m.CursorDelete, "B")
    app.put("Q", b"x")
    assert rows_stored(manager)[0] == last + 1


def event_names(manager: Manager) -> list[str]:
    found = []
    for delivery in manager.connect("events").get("SYSTEM.EVENTS", 1_000):
        found.append(json.loads(delivery.body)["event"])
    return found


def test_history_over_its_limit_drops_the_oldest_after_an_event() -> None:
    manager, app = opened(accounting=SMALL)
    app.ask(m.CursorCommit, "SLOW", 0)
    for number in range(400):
        app.put("Q", b"x" * (1 + number % 7), uid=(f"ORIGIN-{number % 50}-{'x' * 40}", number + 1))
    shown = app.ask(m.HistoryShow)
    assert shown["bytes"] <= SMALL["bytes_max"]
    if not shown["dropped"]:
        for number in range(4_000):
            app.put("Q", b"y", uid=(f"ORIGIN-{number % 50}-{'y' * 40}", number + 1))
        shown = app.ask(m.HistoryShow)
    assert shown["bytes"] <= SMALL["bytes_max"]
    assert shown["dropped"] == shown["first"] - 1 > 0
    (cursor,) = shown["cursors"]
    assert (cursor["lost"], cursor["position"]) == (shown["dropped"], shown["first"] - 1)
    manager.rest()
    manager.turn()
    names = event_names(manager)
    assert names.index("history nearly full") < names.index("history dropped")


def test_limit_shown_for_a_small_store_is_the_actual_one(tmp_path: Path) -> None:
    store = disk_store(tmp_path / "store", 4 << 20)
    try:
        assert Manager(store).connect().ask(m.HistoryShow)["bytes_max"] == 512 << 10
    finally:
        store.close()


def test_old_history_is_removed() -> None:
    manager, app = opened(accounting=SMALL)
    app.put("Q", b"old")
    manager.advance(SMALL["age_max_ms"] + 1)
    app.put("Q", b"new")
    assert brief(manager) == [("put", 2)]


def test_long_turns_are_split_into_rows_that_fit() -> None:
    manager, app = opened()
    uids = [(f"{number:>60}".replace(" ", "o"), number + 1) for number in range(300)]
    batch = [record(b"x", uid=uid) for uid in uids]
    app.put_records("Q", *batch)
    values = [value for _, value in manager.scan(keys.SPACE_HISTORY)]
    assert max(map(len, values)) <= 4_000
    assert len(values) > 5
    assert [one.message_id for one in history_of(manager)] == [f"{a}.{b}" for a, b in uids]


def test_messages_of_a_deleted_queue_are_recorded_as_removed() -> None:
    manager, app = opened()
    for number in range(3):
        app.put("Q", b"x" * (1 + 5_000 * number))
    queue_id = manager.queue("Q").id
    app.ask(m.QueueDelete, "Q", True)
    manager.crash()
    manager.rest()
    told = [one for one in history_of(manager) if one.queue_id == queue_id]
    assert [(one.event, one.arrival, one.code) for one in told[3:]] == [
        ("removed", number, ErrorCode.QUEUE_DELETED) for number in (1, 2, 3)
    ]
    assert [one.size for one in told[3:]] == [one.size for one in told[:3]]


def test_messages_of_an_ended_subscription_are_recorded_as_removed() -> None:
    manager, app = opened(queue_defaults={"accounting": "on"})
    app.ask(m.Subscribe, "a", ":s")
    app.put("/a", b"x")
    manager.rest()
    app.ask(m.Unsubscribe, ":s")
    manager.rest()
    assert brief(manager, ":s") == [("put", 1), ("removed", 1)]
    assert brief(manager, "SYSTEM.PUBLICATIONS") == [("published", 1), ("settled", 1)]


def test_dead_letter_is_recorded_with_its_last_failure() -> None:
    manager, app = opened()
    app.ask(m.QueueAlter, "Q", {"backout_threshold": 1})
    app.put("Q", b"a")
    app.release(*app.get("Q"))
    last = [one for one in history_of(manager) if one.queue == "Q"][-1]
    assert (last.event, last.delivered, last.failed) == ("dead-lettered", 1, 1)


def test_priority_is_recorded_on_queues_that_keep_one_order() -> None:
    manager, app = opened(queue_defaults={"accounting": "on"})
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:7470"]})
    app.ask(m.QueueCreate, "Q@NYC")
    app.put("Q@NYC", b"a", priority=2)
    app.put("Q@NYC", b"a", priority=7, expiry_ms=1_000)
    app.put("Q@NYC", b"a" * 9_000, priority=7)
    manager.turn(1_000)
    manager.rest()
    told = [one for one in history_of(manager) if one.queue == "@NYC"]
    assert [(one.event, one.priority) for one in told] == [
        ("put", 2),
        ("put", 7),
        ("put", None),
        ("expired", 7),
    ]


@pytest.mark.parametrize("at", range(34))
@pytest.mark.parametrize("bit", [1, 128, 255])
def test_damage_anywhere_in_an_entry_fails_no_turn(at: int, bit: int) -> None:
    """The daemon's part of an entry has no checksum, so it may contain any number."""
    manager, app = opened()
    app.put("Q", b"rots")
    key = keys.message(manager.queue("Q").id, keys.LANE_READY, 4, 1)
    tx = manager.store.begin()
    value = bytearray(tx.get(key))
    value[at] ^= bit
    tx.put(key, bytes(value))
    manager.store.commit()
    for delivery in app.get("Q"):
        app.release(delivery)
    manager.turn(2_000)
    app.ask(m.QueuePurge, "Q")
    manager.rest()
    assert history_of(manager)


@given(st.binary(max_size=200), st.integers(0, 14), st.text(max_size=200))
def test_event_of_any_entry_can_be_stored(value: bytes, kind: int, client: str) -> None:
    kept = History(1 << 20, 60_000)
    for name, queue_id in (("Q", 1), ("@NYC", 2), ("SYSTEM.PUBLICATIONS", keys.PUBLICATIONS_ID)):
        account = kept.account(name, queue_id)
        key = keys.message(queue_id, 0, 4, 2**63) if value else b"\x10" + b"\xff" * 14
        account.entry(kind, key, entries.decode(value), peer=client, target="x" * 255)
    for row in wire.encode(1, 1, kept._pending):
        assert wire.decode(row).sections


def test_longest_names_fit_in_a_row() -> None:
    manager = Manager(queue_defaults={"accounting": "on"})
    app = manager.connect("\U0001f4a5" * 200)
    queue = "Q" * 48
    app.ask(m.QueueCreate, queue)
    uid = ("O" * 48, 1)
    for number in range(40):
        app.put(queue, b"x", uid=(uid[0], number + 1))
        (delivery,) = app.get(queue)
        app.put_records("Q" * 48, record(b"y", priority=number % 10))
        app.ack(delivery)
        app.ack(*app.get(queue))
    values = [value for _, value in manager.scan(keys.SPACE_HISTORY)]
    assert max(map(len, values)) <= 4_000
    assert {one.peer for one in history_of(manager)} == {"", "\U0001f4a5" * 200}


def test_page_ends_before_a_damaged_row() -> None:
    manager, app = opened()
    for _ in range(4):
        app.put("Q", b"x")
    tx = manager.store.begin()
    tx.put(keys.history(3), tx.get(keys.history(3))[:-1] + b"?")
    manager.store.commit()
    assert [seq for seq, _ in app.ask(m.HistoryRead, 0)["rows"]] == [1, 2]
    with pytest.raises(RequestError, match="history row id 3"):
        app.ask(m.HistoryRead, 2)
    assert [seq for seq, _ in app.ask(m.HistoryRead, 3)["rows"]] == [4]


@pytest.mark.parametrize("damage", ["missing", "older", "ahead"])
def test_start_finds_the_end_of_the_history_so_that_no_row_is_replaced(damage: str) -> None:
    manager, app = opened()
    for _ in range(4):
        app.put("Q", b"x")
    history = manager.turns.broker.context.history
    before = history.first, history.next
    tx = manager.store.begin()
    if damage == "missing":
        tx.delete(keys.HISTORY)
    else:
        state = (1, 3, 100, 0) if damage == "older" else (2**60, 2**60, 0, 0)
        rows.put(tx, keys.HISTORY, keys.HISTORY_ROW.pack(*state))
    manager.store.commit()
    manager.crash()
    history = manager.turns.broker.context.history
    assert (history.first, history.next) == before
    assert len(manager.connect().ask(m.AsideList)["items"]) == (damage != "missing")
    (note,) = manager.turns.notes
    assert note.facts["what"] == "the state of the history"


def test_damaged_rows_are_removed_in_turn() -> None:
    manager, app = opened(accounting=SMALL)
    for _ in range(3):
        app.put("Q", b"x")
    tx = manager.store.begin()
    tx.put(keys.history(1), b"rotten")
    tx.delete(keys.history(2))
    manager.store.commit()
    manager.advance(SMALL["age_max_ms"] + 1)
    app.put("Q", b"x")
    manager.advance(SMALL["age_max_ms"] + 1)
    app.put("Q", b"x")
    assert rows_stored(manager)[-1] == 5


def test_full_store_accepts_acks_and_drops_the_oldest_history() -> None:
    manager, app = opened()
    for number in range(50):
        app.put("Q", b"x", uid=(f"O{number}", 1))
    leased = app.get("Q", 100)
    app.ask(m.CursorCommit, "SLOW", 0)
    used = manager.store.space().used_bytes
    manager.store.map_bytes, manager.store.disk_free_bytes = 1 << 40, 0
    manager.store.file_free_bytes = 0
    assert used >= 0
    assert app.ack(*leased) == []
    assert manager.queue("Q").counters.depth == 0
    shown = app.ask(m.HistoryShow)
    assert (shown["first"], shown["bytes"]) == (shown["next"], 0)
    assert shown["cursors"][0]["lost"] == shown["dropped"] > 0
