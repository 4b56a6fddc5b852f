"""Tests that taking a plain entry uses a short path, with the same result as the long path."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmgr_protocol import record as records
from qmgr_protocol.messages import DELIVERY, HANDLE
from qmgr_protocol.record import Fields, Uid
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import lease as leases
from qmgrd.core.queue import settle
from qmgrd.core.queue import take as takes
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.put import put
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.take import take
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import lessee

NOW = Now(1, 1_700_000_000_000_000)
fields = st.builds(
    Fields,
    body=st.one_of(st.binary(max_size=40), st.just(bytes(4_200))),
    priority=st.integers(3, 6),
    correlation_id=st.binary(max_size=3),
    envelope=st.sampled_from([{}, {"h": 1}]),
    uid=st.one_of(st.none(), st.builds(Uid, st.just("B"), st.integers(1, 10**6))),
    group=st.one_of(st.none(), st.just((b"g" * 24, 1, False))),
    expiry_ms=st.just(0),
    flags=st.just(0),
    delay_ms=st.sampled_from([0, 0, 5]),
)
rot = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 5_000), st.integers(1, 255)), max_size=3
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 5), st.sampled_from([1, 5_000, 1 << 30])),
        st.tuples(st.just("ack"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("release"), st.integers(0, 9), st.just(0)),
    ),
    max_size=12,
)


def damage(store: MemoryStore, at: list[tuple[int, int, int]]) -> None:
    found = [key for key in store.rows if key[:1] == keys.SPACE_MESSAGE]
    for index, offset, mask in at:
        if index < len(found):
            value = bytearray(store.rows[found[index]])
            value[offset % len(value)] ^= mask
            store.rows[found[index]] = bytes(value)


def outcome(batch: list[bytes], at: list[tuple[int, int, int]], todo: list[Any]) -> Any:
    """Returns the deliveries, rows and counters."""
    store, counters = MemoryStore(), Counters(maybe_before=3)
    queue = Queue(1, "Q", Bounds(10**6, 10**9, 1_000, 6), counters, Ids(1), Schedule())
    put(queue, store, NOW, Stamper("QM1", 0), batch, 10**6)
    damage(store, at)
    consumer = Consumer(1, 1, lessee(queue), 10**6, 10**9)
    seen: list[Any] = []
    for what, number, size in todo:
        if what == "take":
            consumer.credit_bytes = size
            seen.append(take(queue, store, NOW, consumer, number))
        elif queue.leases:
            lease = list(queue.leases.values())[number % len(queue.leases)]
            handle = HANDLE.pack(lease.priority, lease.arrival, lease.number)
            if what == "ack":
                seen.append(settle.ack_all(queue, store, NOW, handle, consumer.lessee.numbers))
            else:
                settle.return_to_queue(queue, store, lease, failed=True)
    queue.refresh_groups(store, NOW)
    queue.flush(store)
    # This leaves out is_plain, which selects the path.
    leases = [lease[:1] + lease[2:-1] for lease in queue.leases.values()]
    return seen, dict(store.rows), counters, leases, queue.positions.ready


@given(st.lists(fields.map(records.encode), max_size=12), rot, steps)
@example(  # a damaged version, which the short path once did not see
    [records.encode(Fields(b"")), records.encode(Fields(bytes(4_200)))],
    [(0, 0, 1)],
    [("take", 1, 1)],
)
def test_plain_entries_are_taken_as_all_others(
    batch: list[bytes], at: list[tuple[int, int, int]], todo: list[Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "DELIVER_MAX_BYTES", 8_000)
        fast = outcome(batch, at, todo)
        patch.setattr(takes, "_LEAST_BYTES", 1 << 40)
        slow = outcome(batch, at, todo)
    assert fast == slow


def test_plain_entries_take_the_short_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the test above would compare the long path with itself."""
    monkeypatch.setattr(entries, "open_sound", None)
    plain = [
        records.encode(Fields(b"")),
        records.encode(Fields(b"x" * 256, correlation_id=b"c" * 64, envelope={"h": 1})),
        records.encode(Fields(b"x" * 3_000)),
    ]
    seen, _, counters, _, _ = outcome(plain, [], [("take", 5, 10**9)])
    assert [len(records.decode(item[DELIVERY.size :]).body) for item in seen[0]] == [0, 256, 3_000]
    assert counters.delivered == 3


class CountingStore(MemoryStore):
    """A store that counts the rows that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(start, end):
            self.looks += 1
            yield row


class Taker:
    """A queue, its store, and one consumer with sufficient credit."""

    def __init__(self, *priorities: int) -> None:
        self.store = CountingStore()
        self.counters = Counters()
        bounds = Bounds(10**6, 10**9, 1_000, 10**6)
        self.queue = Queue(1, "Q", bounds, self.counters, Ids(1), Schedule())
        self.stamper = Stamper("QM1", 0)
        self.consumer = Consumer(1, 1, lessee(self.queue), 10**6, 10**9)
        self.put(*priorities)

    def put(self, *priorities: int) -> None:
        batch = [records.encode(Fields(b"x", priority=priority)) for priority in priorities]
        put(self.queue, self.store, NOW, self.stamper, batch, 10**6)

    def take(self, count: int) -> list[int]:
        """Returns the priorities of the available messages."""
        return [item[0] for item in take(self.queue, self.store, NOW, self.consumer, count)]


RECORD_BYTES = records.HEAD_BYTES + 1 + len("QM1") + 8


def test_credit_in_bytes_is_used_to_the_byte() -> None:
    for priorities in ([4, 4, 4], [9, 4, 0]):
        taker = Taker(*priorities)
        taker.consumer.credit_bytes = 2 * RECORD_BYTES
        assert taker.take(9) == priorities[:2]
        assert taker.consumer.credit_bytes == 0


def test_deliveries_are_counted_over_all_takes() -> None:
    taker = Taker(4, 4, 4)
    assert [len(taker.take(2)), len(taker.take(2))] == [2, 1]
    assert taker.counters.delivered == 3


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 20))
def test_lease_numbers_prove_their_own_message_alone(priorities: list[int], count: int) -> None:
    """A take may process blocks of arrivals in any sequence."""
    taker = Taker(*priorities)
    while taker.take(count):
        pass
    leases = taker.queue.leases
    assert len(leases) == len(priorities)
    sums = {
        x.arrival: entries.checksum_of(taker.store.rows[x.key][entries.HEAD_BYTES :])
        for x in leases.values()
    }
    for lease in leases.values():
        found = {
            at for at in sums if taker.consumer.lessee.numbers.proves(lease.number, 1, at, sums[at])
        }
        assert found == {lease.arrival}


def test_frame_is_filled_to_the_byte_and_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message that did not fit is the first of the next frame, before lower priorities."""
    monkeypatch.setattr(leases, "DELIVER_MAX_BYTES", 2 * RECORD_BYTES)
    taker = Taker(4, 4, 4, 0)
    assert [taker.take(9) for _ in range(3)] == [[4, 4], [4, 0], []]


def test_take_reads_two_rows_at_most() -> None:
    """A take reads one row, and one more where a higher priority ends."""
    taker = Taker(*[4] * 100)
    for _ in range(60):
        taker.take(1)
    taker.put(*[9] * 50)
    found = [taker.take(1) for _ in range(90)]
    assert found == [[9]] * 50 + [[4]] * 40
    assert taker.store.looks <= 2 * (60 + 90)
