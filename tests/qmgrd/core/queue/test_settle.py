"""Tests that the end of a lease removes the message, or returns it to its position."""

from typing import NamedTuple

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.messages import DELIVERY, HANDLE
from qmgr_protocol.record import Fields
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import notes, settle
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.lease_number import LeaseNumbers
from qmgrd.core.queue.put import put
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.seek import seek
from qmgrd.core.queue.take import take
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, lessee

NOW = Now(1_000, 1_700_000_000_000_000)


class Leased(NamedTuple):
    """A queue whose messages are all leased."""

    queue: Queue
    tx: MemoryStore
    handles: list[bytes]
    numbers: LeaseNumbers


def leased(*given: Fields, dedup_retention_ms: int = 0) -> Leased:
    bounds = Bounds(100, 10**6, 1_000, 100, dedup_retention_ms=dedup_retention_ms)
    queue, tx = Queue(1, "Q", bounds, Counters(), Ids(1), Schedule()), MemoryStore()
    batch = [records.encode(fields) for fields in given]
    put(queue, tx, NOW, Stamper("QM1", 0), batch, 10**6)
    consumer = Consumer(1, 1, lessee(queue), 100, 10**6)
    items = take(queue, tx, NOW, consumer, 100)
    items += seek(queue, tx, NOW, consumer, 100).items  # This adds messages that belong to groups.
    assert len(items) == len(given)
    heads = [DELIVERY.unpack_from(item)[:3] for item in items]
    return Leased(queue, tx, [HANDLE.pack(*head) for head in heads], consumer.lessee.numbers)


def left(queue: Queue, tx: MemoryStore) -> list[bytes]:
    """Returns the rows of messages and groups, without the table of origins."""
    queue.refresh_groups(tx, NOW)
    return [key for key in tx.rows if key[:1] != keys.SPACE_ORIGIN]


KINDS = {
    "plain": Fields(b"x"),
    "indexed": Fields(b"x", correlation_id=b"c", group=(b"g" * 24, 1, True)),
    "long": Fields(bytes(9_000)),
    "timed": Fields(b"x", expiry_ms=60_000),
}


@pytest.mark.parametrize("kind", KINDS)
def test_acknowledged_message_leaves_no_row(kind: str) -> None:
    queue, tx, handles, numbers = leased(KINDS[kind])
    assert settle.ack_all(queue, tx, NOW, b"".join(handles), numbers) == []
    assert left(queue, tx) == []
    counters = queue.counters
    assert (counters.acked, counters.depth, counters.bytes) == (1, 0, 0)
    assert queue.leases == {}


@pytest.mark.parametrize("kind", KINDS)
def test_uid_of_any_message_is_remembered_for_the_retention(kind: str) -> None:
    queue, tx, handles, numbers = leased(KINDS[kind], dedup_retention_ms=5_000)
    assert settle.ack_all(queue, tx, NOW, handles[0], numbers) == []
    spaces = sorted(key[:1] for key in left(queue, tx))
    assert spaces == [keys.SPACE_UID, keys.SPACE_DUE]
    assert queue.shared.schedule.next_ms == NOW.ms + 5_000
    assert queue.counters.bytes == 0


def test_retention_set_during_a_lease_applies() -> None:
    queue, tx, handles, numbers = leased(KINDS["plain"])
    queue.bounds = Bounds(100, 10**6, 1_000, 100, dedup_retention_ms=5_000)
    assert settle.ack_all(queue, tx, NOW, handles[0], numbers) == []
    assert len(left(queue, tx)) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ready_ms", [0, 9_000])
@pytest.mark.parametrize("note", [b"", notes.encode({"attempts": []})])
def test_returned_message_can_be_acknowledged_by_its_old_handle(
    kind: str, ready_ms: int, note: bytes
) -> None:
    """The handle works once more. The acknowledgement then removes the message."""
    queue, tx, handles, numbers = leased(KINDS[kind])
    (lease,) = queue.leases.values()
    settle.return_to_queue(queue, tx, lease, failed=True, ready_ms=ready_ms, note=note)
    assert queue.leases == {}
    assert (queue.counters.depth, queue.counters.delayed) == ((0, 1) if ready_ms else (1, 0))
    assert settle.ack_all(queue, tx, NOW, handles[0], numbers) == []
    assert left(queue, tx) == []
    assert (queue.counters.depth, queue.counters.delayed, queue.counters.acked) == (0, 0, 1)
    assert settle.ack_all(queue, tx, NOW, handles[0], numbers) == []
    assert queue.counters.acked == 1


@pytest.mark.parametrize("ready_ms", [0, 9_000])
def test_handle_of_another_message_in_its_place_settles_nothing(ready_ms: int) -> None:
    queue, tx, handles, numbers = leased(KINDS["plain"])
    (lease,) = queue.leases.values()
    settle.return_to_queue(queue, tx, lease, ready_ms=ready_ms)
    priority, arrival, number = HANDLE.unpack(handles[0])
    other = HANDLE.pack(priority, arrival, number ^ 1 << 63)
    assert settle.ack_all(queue, tx, NOW, other, numbers) == [(0, ErrorCode.LEASE_LOST)]
    assert queue.counters.acked == 0


def test_exceptions_name_each_handle_by_its_index_in_the_batch() -> None:
    queue, tx, handles, numbers = leased(*[Fields(b"x")] * 4)
    wrong = HANDLE.pack(*HANDLE.unpack(handles[1])[:2], 5)
    found = settle.ack_all(queue, tx, NOW, handles[0] + wrong + handles[2] + wrong, numbers)
    assert found == [(1, ErrorCode.LEASE_LOST), (3, ErrorCode.LEASE_LOST)]
    assert queue.counters.depth == 2


def test_returned_message_precedes_younger_ones() -> None:
    queue, tx, _, _ = leased(Fields(b"0"), Fields(b"1"), Fields(b"2"))
    for lease in reversed(list(queue.leases.values())):
        settle.return_to_queue(queue, tx, lease)
    items = take(queue, tx, NOW, Consumer(1, 1, lessee(queue), 100, 10**6), 9)
    found = [records.decode(item[DELIVERY.size :]).body for item in items]
    assert found == [b"0", b"1", b"2"]


def test_late_ack_settles_a_message_parked_meanwhile(app: Client) -> None:
    """C11: A subscriber that has processed the message does not receive it again."""
    app.ask(m.Subscribe, "t", ":s", "", {"redelivery_limit": 0})
    app.put("/t", b"x")
    (found,) = app.get(":s", lease_ms=1_000)
    app.manager.turn(2_000)
    assert len(app.ask(m.RepublishList)["parked"]) == 1
    assert app.ack(found) == []
    assert app.ask(m.RepublishList)["parked"] == []
    assert app.show("SYSTEM.PUBLICATIONS")["depth"] == 0
