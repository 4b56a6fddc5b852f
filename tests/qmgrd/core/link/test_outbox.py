"""Tests of the messages that a link has to send. test_link.py tests the complete link."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import CommitOutOfRange
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.link.outbox import GONE, LinkOutbox
from qmgrd.core.queue import lane
from tests.qmgrd.core.any_record import any_record
from tests.qmgrd.core.harness import Client, Manager


@pytest.fixture
def outbox(app: Client) -> Iterator[LinkOutbox]:
    """Yields an outbox of five messages for F and G at NYC, in an open turn."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    for queue in ("F@NYC", "G@NYC"):
        app.ask(m.QueueCreate, queue)
    app.put("F@NYC", b"1", b"2")
    app.put("G@NYC", b"3", b"4", b"5")
    manager = app.manager
    tx = manager.turns.broker.context.tx = manager.store.begin()
    outbox = manager.turns.broker.catalogue.links["NYC"].outbox
    yield outbox
    outbox.queue.flush(tx)
    manager.store.commit()


def found(outbox: LinkOutbox, count: int) -> list[tuple[str, bytes]]:
    return [
        (target, records.decode(record).body if record else b"")
        for target, record, _ in outbox.records(count, 1 << 20, {})
    ]


def damage(manager: Manager, seq_id: int) -> None:
    queue_id = manager.queue("@NYC").id
    key = keys.message(queue_id, keys.LANE_READY, keys.PRIORITY_TOP, seq_id)
    tx = manager.turns.broker.context.tx
    value = bytearray(tx.get(key) or b"")
    value[entries.HEAD_BYTES + 1 + records.HEAD_BYTES] ^= 1
    tx.put(key, bytes(value))


def sent_and_deleted(batches: list[tuple[str, list[bytes]]], *, is_fast: bool) -> Any:
    """Returns what a link sends of *batches*, and the store after the peer has committed half."""
    manager = Manager()
    app = manager.connect("app")
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    for target, batch in batches:
        app.put_records(target + "@NYC", *batch)
    broker = manager.turns.broker
    tx = broker.context.tx = manager.store.begin()
    outbox = broker.catalogue.links["NYC"].outbox
    with pytest.MonkeyPatch.context() as patch:
        if not is_fast:
            patch.setattr(entries, "plain_parts", lambda value: None)
        too_long: dict[int, int] = {}
        told = list(outbox.records(1_000, 4_500, too_long))
        outbox._delete(1, len(told) // 2)
    outbox.queue.flush(tx)
    manager.store.commit()
    return told, too_long, outbox.queue.counters, tx.rows_used, dict(manager.scan(b""))


@given(
    st.lists(st.tuples(st.sampled_from(["F", "G"]), st.lists(any_record, max_size=8)), max_size=4)
)
def test_plain_messages_are_sent_and_deleted_as_all_others(
    batches: list[tuple[str, list[bytes]]],
) -> None:
    assert sent_and_deleted(batches, is_fast=True) == sent_and_deleted(batches, is_fast=False)


def test_plain_messages_are_sent_and_deleted_in_the_loops(
    outbox: LinkOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the test above would compare the step-by-step path with itself."""
    monkeypatch.setattr(entries, "outlined", None)
    monkeypatch.setattr(lane, "remove", None)
    assert len(found(outbox, 5)) == 5
    outbox._delete(1, 5)
    assert (outbox.queue.counters.depth, outbox.queue.counters.acked) == (0, 5)


def test_message_with_a_damaged_target_is_set_aside() -> None:
    """The peer would close the connection at a put without a queue."""
    manager = Manager()
    app = manager.connect("app")
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"1", b"2")
    broker = manager.turns.broker
    tx = broker.context.tx = manager.store.begin()
    outbox = broker.catalogue.links["NYC"].outbox
    key = keys.message(outbox.queue.id, keys.LANE_READY, keys.PRIORITY_TOP, 1)
    value = bytearray(tx.get(key) or b"")
    value[entries.HEAD_BYTES] ^= 0x80
    tx.put(key, bytes(value))
    assert found(outbox, 2) == [("", b""), ("F", b"2")]
    outbox.set_aside()
    assert outbox.queue.counters.damaged == 1


def test_records_come_in_order_within_the_window(outbox: LinkOutbox) -> None:
    assert found(outbox, 3) == [("F", b"1"), ("F", b"2"), ("G", b"3")]
    outbox.take(3)
    outbox.window = 4
    assert found(outbox, 100) == [("G", b"4")]
    outbox.window = Config().link.window_messages
    assert len(found(outbox, 100)) == 2
    outbox.take(2)
    assert found(outbox, 100) == []


@pytest.mark.parametrize("damaged", [(1,), (5,), (2, 3), (1, 2, 3, 4, 5)])
def test_damaged_messages_are_removed_for_good(
    app: Client, outbox: LinkOutbox, damaged: tuple[int, ...]
) -> None:
    for seq_id in damaged:
        damage(app.manager, seq_id)
    first = list(outbox.records(100, 1 << 20, {}))
    outbox.set_aside()
    assert [index for index, one in enumerate(first, 1) if one == GONE] == list(damaged)
    assert list(outbox.records(100, 1 << 20, {})) == first
    assert list(islice(outbox.records(100, 1 << 20, {}), 2)) == first[:2]
    assert outbox.queue.counters.damaged == len(damaged)
    assert outbox.commit(5) == range(1, 6)
    assert outbox.queue.counters.depth == 0
    assert (outbox.uid_at(5) is None) == (5 in damaged)


def test_commit_deletes_and_keeps_the_last_uid(app: Client, outbox: LinkOutbox) -> None:
    outbox.take(5)
    uids = [outbox.uid_at(seq_id) for seq_id in range(1, 6)]
    assert None not in uids
    assert outbox.commit(2) == range(1, 3)
    assert outbox.commit(1) == range(3, 2)
    assert outbox.uid_at(2) == uids[1]
    assert outbox.uid_at(1) is None
    again = LinkOutbox(outbox.queue, app.manager.turns.broker.context)
    assert (again.commit_id, again.sent_id, again.uid_at(2)) == (2, 2, uids[1])
    assert found(again, 100) == [("G", b"3"), ("G", b"4"), ("G", b"5")]


def test_commit_of_what_was_never_assigned_deletes_nothing(outbox: LinkOutbox) -> None:
    with pytest.raises(CommitOutOfRange):
        outbox.commit(6)
    assert len(found(outbox, 100)) == 5


def test_what_is_gone_with_a_restart_is_counted_once_though_the_peer_holds_it(app: Client) -> None:
    """The simulator found this bug with seed 1560."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"1", b"2", flags=records.FLAG_NOT_PERSISTENT)
    app.put("F@NYC", b"3")
    manager = app.manager
    context = manager.turns.broker.context
    context.tx = manager.store.begin()
    outbox = manager.turns.broker.catalogue.links["NYC"].outbox
    counters = outbox.queue.counters
    assert outbox.queue.lose_volatile() == (1, 4)
    assert outbox.commit(3) == range(1, 4)
    assert (counters.depth, counters.lost, counters.acked) == (0, 2, 1)
    outbox.queue.flush(context.tx)
    manager.store.commit()


def test_message_is_described_by_its_id(outbox: LinkOutbox) -> None:
    told = outbox.describe(3)
    assert told == {"blocked_queue": "G", "blocked_uid": str(uid(outbox, 3)), "blocked_behind": 2}
    outbox.commit(0)
    assert outbox.describe(6) == dict.fromkeys(told)


def uid(outbox: LinkOutbox, seq_id: int) -> records.Uid | None:
    (_, record, _) = list(outbox.records(5, 1 << 20, {}))[seq_id - 1]
    return records.decode(record).uid


def test_damaged_message_found_twice_in_a_turn_counts_once(app: Client, outbox: LinkOutbox) -> None:
    """Seed 1663: The link was about to send the message over a second path as well."""
    damage(app.manager, 2)
    found(outbox, 5)
    found(outbox, 5)
    outbox.set_aside()
    assert outbox.queue.counters.damaged == 1
    assert outbox.queue.counters.depth == 4
