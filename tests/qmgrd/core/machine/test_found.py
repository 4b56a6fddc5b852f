"""Tests of bugs that the machine found."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Delivery, Manager, record

VOLATILE = records.FLAG_NOT_PERSISTENT
GROUP = b"g" * 24


def alter(app: Client, **attributes: Any) -> None:
    app.ask(m.QueueAlter, "Q", attributes)


def test_message_lost_at_a_restart_is_no_longer_due(manager: Manager, app: Client) -> None:
    """The delay ends in the turn of the sweep. An earlier version counted the message twice."""
    app.put("Q", b"1", flags=VOLATILE, delay_ms=250)
    app.put("Q", b"2", flags=VOLATILE, expiry_ms=250)
    manager.crash(5_000)
    manager.turn()
    manager.rest()
    audit(manager)
    counters = manager.queue("Q").counters
    assert (counters.depth, counters.delayed, counters.expired, counters.lost) == (0, 0, 0, 2)


def test_message_lost_at_a_restart_counts_once_in_any_first_turn(
    manager: Manager, app: Client
) -> None:
    app.put("Q", b"1", flags=VOLATILE)
    (got,) = app.get("Q")
    manager.crash()
    assert manager.connect().ack(got) == []
    audit(manager)
    counters = manager.queue("Q").counters
    assert (counters.lost, counters.acked) == (1, 0)


def test_message_lost_at_a_restart_is_neither_purged_nor_evicted(
    manager: Manager, app: Client
) -> None:
    alter(app, depth_max=2, overflow="dead-letter-oldest")
    app.put("Q", b"1", flags=VOLATILE)
    app.put("Q", b"2")
    manager.crash()
    again = manager.connect()
    again.send(m.ProducerOpen(again.next_id(), b"p" * 16))
    again.send(m.Put(1, 1, 0, "Q", [record(b"3"), record(b"4")]))
    again.send(m.QueuePurge(again.next_id(), "Q"))
    manager.rest()
    audit(manager)
    assert again.bodies("SYSTEM.DEAD.LETTERS") == [b"2"]
    counters = manager.queue("Q").counters
    assert (counters.lost, counters.purged) == (1, 2)


def test_message_lost_at_a_restart_does_not_become_a_dead_letter(
    manager: Manager, app: Client
) -> None:
    alter(app, expiry_action="dead-letter")
    app.put("Q", b"1", flags=VOLATILE, expiry_ms=250)
    manager.crash(5_000)
    assert manager.connect().browse("SYSTEM.DEAD.LETTERS") == []


@pytest.mark.parametrize("before", [b"", b"2"])
def test_late_ack_settles_a_message_that_waits_for_its_retry(
    manager: Manager, app: Client, before: bytes
) -> None:
    alter(app, retry_initial_ms=10_000)
    app.put("Q", b"1", *([before] if before else []))
    (got,) = app.get("Q", lease_ms=500)
    manager.turn(600)
    assert app.show("Q")["delayed"] == 1
    assert app.ack(got) == []
    assert app.show("Q")["delayed"] == 0
    manager.turn(20_000)
    assert app.bodies("Q") == ([before] if before else [])


def test_a_selector_knows_a_message_that_had_a_delay(manager: Manager, app: Client) -> None:
    app.put("Q", b"1", delay_ms=10, envelope={"headers": {"colour": "red"}})
    manager.turn(20)
    value = app.ask(m.Browse, "Q", None, 10, 1 << 20, "colour = 'red'")
    assert len(value["items"]) == 1


def test_a_refused_put_of_a_unit_is_counted_for_good(manager: Manager, app: Client) -> None:
    app.put("Q", b"1", uid=("O", 1))
    app.ask(m.UnitBegin, 1)
    app.ask(m.UnitPut, 1, "Q", [record(b"1", uid=("O", 1))])
    audit(manager)
    manager.crash()
    assert manager.queue("Q").counters.duplicates == 1


def test_last_attempt_of_a_dead_letter_states_why_it_failed(manager: Manager, app: Client) -> None:
    alter(app, backout_threshold=1)
    app.put("Q", b"1")
    app.get("Q", lease_ms=500)
    manager.turn(600)
    (found,) = app.browse("SYSTEM.DEAD.LETTERS")
    queue = manager.queue("SYSTEM.DEAD.LETTERS")
    note = notes.read(manager.store.begin(), queue.id, found.arrival)
    manager.store.abort()
    assert note["code"] == ErrorCode.BACKOUT_THRESHOLD_REACHED
    assert [code for _, code, *_ in note["attempts"]] == [ErrorCode.LEASE_LOST]


def test_uid_remembered_by_the_backout_queue_does_not_lose_a_dead_letter(
    manager: Manager, app: Client
) -> None:
    app.ask(m.QueueCreate, "B", {"dedup_retention_ms": 60_000})
    alter(app, backout_threshold=1, backout_queue="B")
    for _ in range(2):
        app.put("Q", b"1", uid=("O", 1))
        app.release(*app.get("Q"))
        assert app.bodies("B") == [b"1"]
        app.ack(*app.get("B"))
    manager.turn(70_000)
    manager.rest()
    assert manager.scan(keys.of_queue(keys.SPACE_UID, manager.queue("B").id)) == []


def test_a_queue_of_delayed_messages_is_not_empty(app: Client) -> None:
    app.put("Q", b"1", delay_ms=1_000)
    assert app.code_of(m.QueueDelete, "Q") == ErrorCode.QUEUE_NOT_EMPTY
    assert app.ask(m.QueueDelete, "Q", True) == {"messages": 1}


def test_delayed_messages_are_in_no_index(app: Client) -> None:
    """An earlier version skipped delayed messages, and showed available ones in their positions."""
    app.put("Q", b"1", correlation_id=b"k")
    app.put("Q", b"2", correlation_id=b"k", delay_ms=1_000, uid=("O", 1))
    uid = records.encode_uid(records.Uid("O", 1))
    shown = app.ask(m.Browse, "Q", None, 9, 1 << 20, "correlation_id = 'k'", b"", b"", b"", True)
    bodies = [records.decode(item[m.DELIVERY_BYTES :]).body for item in shown["items"]]
    assert bodies == [b"2"]
    for selected in ((b"k", b"", b""), (b"", b"", uid)):
        code = app.code_of(m.Browse, "Q", None, 9, 1 << 20, "", *selected, True)
        assert code == ErrorCode.VALUE_INVALID


def test_timestamps_given_to_a_lost_unit_are_not_given_again_A3(
    manager: Manager, app: Client
) -> None:
    """The store has no row for that unit, so a clean stop must store the timestamps (seed 2006)."""
    stamps = []
    for _ in range(2):
        app.ask(m.UnitBegin, 1)
        _, ((_, timestamp, _),) = app.ask(m.UnitPut, 1, "Q", [record(b"x")])
        stamps.append(timestamp)
        manager.restart()
        app = manager.connect()
    assert stamps[0] < stamps[1]


def test_job_that_ended_in_1970_has_ended(manager: Manager, app: Client) -> None:
    """If the wall clock was set back that far, the job began again at the next start (seed 35)."""
    app.ask(m.QueueCreate, "B")
    app.put("Q", b"1", b"2")
    manager.wall_us = 0
    assert app.ask(m.QueueMove, "Q", "B", "", 1)["job"]
    manager.rest()
    manager.crash()
    manager.rest()
    assert manager.connect().bodies("Q") == [b"2"]


def test_refused_member_evicts_nothing(app: Client) -> None:
    alter(app, depth_max=2, overflow="discard-oldest")
    app.put("Q", b"1")
    app.put("Q", b"2", group=(GROUP, 1, False))
    refused = app.put_records("Q", record(b"3", group=(GROUP, 1, False)))
    assert [found.code for found in refused] == [ErrorCode.GROUP_NUMBER_TAKEN]
    assert app.bodies("Q") == [b"1", b"2"]


def test_member_of_a_parked_group_can_be_evicted(app: Client) -> None:
    """Eviction missed a message before the read position, so the queue stayed full."""
    alter(app, depth_max=1, overflow="discard-oldest", backout_threshold=1)
    app.put("Q", b"1", group=(GROUP, 1, False))
    app.release(*app.get("Q"))
    assert app.get("Q") == []
    app.put("Q", b"2")
    assert app.bodies("Q") == [b"2"]


def test_last_member_that_is_moved_does_not_end_a_group_that_continues(
    manager: Manager, app: Client
) -> None:
    """On the new queue, the message has no group, because later numbers have already arrived."""
    app.ask(m.QueueCreate, "B")
    app.put("B", b"3", group=(GROUP, 3, False))
    app.put("Q", b"2", group=(GROUP, 2, True))
    assert app.ask(m.QueueMove, "Q", "B")["job"]
    manager.rest()
    audit(manager)
    shown = app.ask(m.GroupShow, "B", GROUP)
    assert ([x["number"] for x in shown["members"]], shown["last"]) == ([3], None)
    assert app.bodies("B") == [b"3", b"2"]


def test_numbers_that_left_before_a_move_stay_gone_after_a_crash(
    manager: Manager, app: Client
) -> None:
    """A unit held the number of the message. The other numbers were only in memory (seed 40)."""
    app.ask(m.QueueCreate, "B")
    app.put("Q", b"1", group=(GROUP, 1, False))
    app.put("Q", b"2", group=(GROUP, 2, False))
    app.ack(*app.get("Q"))
    app.ask(m.UnitBegin, 1)
    app.ask(m.UnitPut, 1, "B", [record(b"2", group=(GROUP, 2, False))])
    assert app.ask(m.QueueMove, "Q", "B")["job"]
    manager.rest()
    audit(manager)
    manager.crash()
    refused = manager.connect().put_records("B", record(b"1", group=(GROUP, 1, False)))
    assert [found.code for found in refused] == [ErrorCode.GROUP_NUMBER_TAKEN]


@pytest.mark.parametrize("first", [1, 2])
def test_reader_continues_where_it_was_when_an_earlier_group_returns(
    manager: Manager, app: Client, first: int
) -> None:
    """A reader has one group at a time. This reader began a third before the end of the second."""
    a, b, c = (letter * 24 for letter in (b"a", b"b", b"c"))
    members = [(a, 1, True), (b, 1, False), (b, 2, True), (c, 1, True)]
    app.put_records("Q", *(record(x[0][:1] + b"%d" % x[1], group=x) for x in members))

    def get(count: int) -> list[Delivery]:
        app.send(m.Get(app.next_id(), "Q", count, order=m.LOGICAL, reader=1))
        manager.rest()
        return app.delivered()

    found = get(1) + get(1)
    assert [x.body for x in found] == [b"a1", b"b1"]
    app.release(found[0])
    assert [x.body for n in (first, 3 - first) for x in get(n)] == [b"a1", b"b2", b"c1"]
    audit(manager)
