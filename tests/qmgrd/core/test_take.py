"""Taking: a plain entry is read there and then, and is handed out as any other would be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import record as records
from qmgr_protocol.messages import DELIVERY, HANDLE
from qmgr_protocol.record import Fields, Uid
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core import take as takes
from qmgrd.core.counters import Counters
from qmgrd.core.ids import Ids
from qmgrd.core.kv import Now
from qmgrd.core.lease import Consumer
from qmgrd.core.queue import Bounds, Queue
from qmgrd.core.stamp import Stamper
from qmgrd.store.memory import MemoryStore

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
    """Return what is handed out, stored and counted."""
    store, counters = MemoryStore(), Counters(maybe_before=3)
    queue = Queue(1, "Q", Bounds(10**6, 10**9, 1_000, 6), counters, Ids(1, b""))
    queue.put(store, NOW, Stamper("QM1", 0), batch, 10**6)
    damage(store, at)
    consumer = Consumer(1, 1, queue, 10**6, 10**9, 1_000)
    seen: list[Any] = []
    for what, number, size in todo:
        if what == "take":
            consumer.credit_bytes = size
            seen.append(queue.take(store, NOW, consumer, number))
        elif queue.leases:
            lease = list(queue.leases.values())[number % len(queue.leases)]
            handle = HANDLE.pack(lease.priority, lease.arrival, lease.number)
            settle = queue.ack_all if what == "ack" else queue.release_all
            seen.append(settle(store, handle))
    queue.flush(store)
    leases = [lease[:1] + lease[2:] for lease in queue.leases.values()]
    return seen, dict(store.rows), counters, leases, queue.heads


@given(st.lists(fields.map(records.encode), max_size=12), rot, steps)
def test_plain_entries_are_taken_as_all_others(
    batch: list[bytes], at: list[tuple[int, int, int]], todo: list[Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(takes, "DELIVER_MAX_BYTES", 8_000)
        fast = outcome(batch, at, todo)
        patch.setattr(takes, "_LEAST_BYTES", 1 << 40)
        slow = outcome(batch, at, todo)
    assert fast == slow


def test_plain_entries_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would compare the long one with itself."""
    monkeypatch.setattr(entries, "open_sound", None)
    plain = [records.encode(Fields(b"x" * size)) for size in (0, 256, 3_000)]
    seen, _, counters, _, _ = outcome(plain, [], [("take", 5, 10**9)])
    assert [len(records.decode(item[DELIVERY.size :]).body) for item in seen[0]] == [0, 256, 3_000]
    assert counters.delivered == 3
