"""Tests that a message's position and its other rows are created and removed together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.record import FLAG_NOT_PERSISTENT, Fields, Uid
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.queue import lane
from qmgrd.core.queue.group.groups import ROWS_OF_A_GROUP
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import AnyStore, Client
from tests.qmgrd.core.unit_of_work import bodies

fields = st.tuples(
    st.sampled_from([b"x", bytes(9_000)]),
    st.sampled_from([b"", b"c"]),
    st.sampled_from([None, (b"g" * 24, 1, False), (b"g" * 24, 1, True)]),
).map(lambda x: Fields(x[0], correlation_id=x[1], group=x[2], uid=Uid("B", 1)))


def a_queue(*, is_transmission: bool = False) -> Queue:
    bounds = Bounds(10**6, 10**9, 1_000, 10**6, group_incomplete_ms=1_000)
    return Queue(1, "Q", bounds, Counters(), Ids(1), Schedule(), is_transmission=is_transmission)


def entry_of(
    queue: Queue, tx: MemoryStore, record: bytes, flags: int, expires_ms: int, ready_ms: int
) -> entries.Entry:
    rest = record
    if entries.rows_of(len(record)):
        flags |= entries.IN_ROWS
        rest = entries.write_rows(tx, queue.shared.ids.next(), record, record[-9:])
    target = "F" if queue.is_transmission else ""
    return entries.Entry(flags, 0, 0, 0, 0, expires_ms, ready_ms, target, rest)


def rows_of(tx: MemoryStore) -> dict[bytes, bytes]:
    return {key: value for key, value in tx.rows.items() if key[:1] >= keys.SPACE_MESSAGE}


def sums(queue: Queue) -> list[int]:
    found = queue.counters
    return [
        found.depth,
        found.delayed,
        found.bytes,
        found.volatile,
        found.volatile_delayed,
        found.volatile_bytes,
        found.grouped,
    ]


@given(
    fields,
    st.sampled_from([0, entries.VOLATILE]),
    st.sampled_from([0, 5_000]),
    st.sampled_from([0, 1_000, 9_000]),
    st.booleans(),
    st.booleans(),
)
def test_added_message_is_removed_without_a_trace(
    given_fields: Fields,
    flags: int,
    expires_ms: int,
    ready_ms: int,
    is_noted: bool,
    is_transmission: bool,
) -> None:
    tx, queue = MemoryStore(), a_queue(is_transmission=is_transmission)
    record = records.encode(given_fields)
    ready_ms = 0 if is_transmission else ready_ms
    entry = entry_of(queue, tx, record, flags, expires_ms, ready_ms)
    if is_noted:
        entry = entry._replace(flags=entry.flags | entries.NOTED)
        tx.put(keys.note(1, 3), b"note")
    body_rows = tx.rows_used
    assert body_rows == len([key for key in tx.rows if key[:1] == keys.SPACE_BODY])
    lane.add(queue, tx, entry, record, record[-9:], 4, 3)
    count = tx.rows_used
    queue.refresh_groups(tx, Now(1, 1))
    group = None if is_transmission else given_fields.group
    # A group that ends here is complete, unless its message is delayed and has no turn.
    of_group = 0 if group is None else ROWS_OF_A_GROUP - (1 + group[2] if ready_ms else 0)
    assert len(rows_of(tx)) == count + of_group + is_noted
    assert sums(queue)[:3] == [not ready_ms, bool(ready_ms), len(record)]
    ((key, value),) = [(k, v) for k, v in tx.rows.items() if k[:1] == keys.SPACE_MESSAGE]
    in_lane = keys.LANE_READY if group is None else keys.LANE_GROUPED
    assert key[keys.POSITION_AT] == (keys.LANE_DELAYED if ready_ms else in_lane)
    lane.remove(queue, tx, key, value)
    # The row of the message's group stays, but the note of the message is deleted.
    assert tx.rows_used == 2 * count - (group is not None) + is_noted
    queue.refresh_groups(tx, Now(1, 1))
    # A group that continues is remembered for a while.
    goes_on = group is not None and not group[2]
    kept = [keys.SPACE_DUE, keys.SPACE_GROUP_ROW] if goes_on else []
    assert sorted(key[:1] for key in rows_of(tx)) == kept
    assert sums(queue) == [0] * 7


def test_delayed_message_is_not_found_but_its_uid_is_taken() -> None:
    tx, queue = MemoryStore(), a_queue()
    record = records.encode(Fields(b"x", correlation_id=b"c", uid=Uid("B", 1)))
    entry = entry_of(queue, tx, record, 0, 0, 1_000)
    lane.add(queue, tx, entry, record, record[-9:], 4, 3)
    assert tx.rows_used == 3
    spaces = sorted(key[:1] for key in rows_of(tx))
    assert spaces == [keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_DUE]
    assert queue.shared.schedule.next_ms == 1_000


def test_earlier_of_delay_and_end_is_due() -> None:
    for expires_ms, ready_ms, due_ms in ((500, 1_000, 500), (5_000, 1_000, 1_000), (500, 0, 500)):
        tx, queue = MemoryStore(), a_queue()
        record = records.encode(Fields(b"x", uid=Uid("B", 1)))
        entry = entry_of(queue, tx, record, 0, expires_ms, ready_ms)
        lane.add(queue, tx, entry, record, record[-9:], 4, 3)
        assert queue.shared.schedule.next_ms == due_ms


def test_message_returns_to_its_old_place_after_its_delay(store: AnyStore, app: Client) -> None:
    """A search through an index also returns the message in its position."""
    app.put("Q", b"late", delay_ms=1_000, correlation_id=b"c", expiry_ms=60_000)
    app.put("Q", b"young")
    app.manager.crash(500)
    app = app.manager.connect()
    assert bodies(app.get("Q")) == [b"young"]
    seeking = app.manager.connect("seeks")
    seeking.say(m.Get(900, "Q", 1, 60_000, 0, 1_000, "", b"c"))
    assert seeking.delivered() == []
    app.manager.turn(500)
    (late,) = seeking.delivered()
    assert seeking.release(late) == []
    app.put("Q", b"last")
    assert bodies(app.get("Q", 9)) == [b"late", b"last"]


def test_delayed_message_lost_at_a_restart_is_counted_once(app: Client) -> None:
    """The schedule checks the message before the job that removes it runs."""
    app.put("Q", b"x", bytes(9_000), delay_ms=1_000, flags=FLAG_NOT_PERSISTENT)
    manager = app.manager
    manager.crash(10_000)
    assert manager.rest() < 10
    app = manager.connect()
    shown = app.show("Q")
    assert [shown[key] for key in ("depth", "ready", "delayed", "lost")] == [0, 0, 0, 2]
    assert app.get("Q") == []
    assert manager.scan(keys.SPACE_BODY) == []


@pytest.mark.parametrize("index", [0, 1, 3, 30])
def test_damaged_entry_removes_no_row_of_another(index: int) -> None:
    tx, queue = MemoryStore(), a_queue()
    for arrival in (3, 4):
        record = records.encode(Fields(b"x", correlation_id=b"c", uid=Uid("B", arrival)))
        entry = entry_of(queue, tx, record, 0, 5_000, 0)
        lane.add(queue, tx, entry, record, record[-9:], 4, arrival)
    before = rows_of(tx)
    other = {key for key in before if key.endswith((4).to_bytes(8, "big"))}
    key = queue.key(4, 3)
    rotten = bytearray(before[key])
    rotten[index] ^= 0x41
    lane.remove(queue, tx, key, bytes(rotten))
    left = rows_of(tx)
    assert key not in left
    assert other <= set(left)


def test_damaged_entry_is_kept_unchanged_in_its_own_lane() -> None:
    tx, queue = MemoryStore(), a_queue()
    record = records.encode(Fields(b"x", correlation_id=b"c", uid=Uid("B", 1)))
    entry = entry_of(queue, tx, record, 0, 5_000, 0)
    lane.add(queue, tx, entry, record, record[-9:], 4, 3)
    key = queue.key(4, 3)
    value = tx.rows[key]
    lane.set_aside(queue, tx, key, value)
    assert rows_of(tx) == {keys.message(1, keys.LANE_DAMAGED, 4, 3): value}
    assert (queue.counters.damaged, queue.counters.depth) == (1, 0)


def test_message_lost_at_a_restart_is_not_also_counted_as_damaged(
    store: AnyStore, app: Client
) -> None:
    """Seed 1797: The message counted as lost, and then a job set the message aside."""
    app.put("Q", b"x", flags=FLAG_NOT_PERSISTENT)
    app.manager.crash()
    manager, queue = app.manager, app.manager.queue("Q")
    tx = manager.store.begin()
    ((key, value),) = tx.scan(*_lane_of(queue.id))
    lane.set_aside(queue, tx, key, value)
    queue.flush(tx)
    manager.store.commit()
    assert (queue.counters.lost, queue.counters.damaged, queue.counters.depth) == (1, 0, 0)


def _lane_of(queue_id: int) -> tuple[bytes, bytes]:
    prefix = keys.lane(queue_id, keys.LANE_READY)
    return prefix, keys.after(prefix)
