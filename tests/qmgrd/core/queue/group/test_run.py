"""Tests that runs of members use the tight loops, with the same results as single steps."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import record as records
from qmgr_protocol.messages import DELIVERY, HANDLE, LOGICAL, PINNED
from qmgr_protocol.record import Fields
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import lease as leases
from qmgrd.core.queue import put as puts
from qmgrd.core.queue import settle
from qmgrd.core.queue.group import follow as group_follow
from qmgrd.core.queue.group.held_groups import Reader
from qmgrd.core.queue.group.take import take_in_order
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.put import put
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit_groups import indexed
from tests.qmgrd.core.harness import lessee

NOW = Now(1, 1_700_000_000_000_000)
IDS = (b"A" * 24, b"B" * 24, bytes(24))
bodies = st.binary(max_size=6) | st.just(bytes(3_950)) | st.just(bytes(9_000))
members = st.tuples(
    bodies,
    st.sampled_from(IDS[:2]) | st.sampled_from(IDS),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from(
        [
            {},
            {},
            {},
            {"correlation_id": b"c"},
            {"expiry_ms": 5},
            {"delay_ms": 5},
            {"flags": 1},
            {"flags": 2},
            {"priority": 9},
        ]
    ),
)
alone = bodies.map(lambda body: records.encode(Fields(body)))
runs = st.tuples(st.sampled_from(IDS[:2]), st.integers(1, 4), st.integers(1, 8), st.booleans())


def member(told: Any) -> bytes:
    body, group_id, number, last, more = told
    return records.encode(Fields(body, group=(group_id, number, last), **more))


def run(told: tuple[bytes, int, int, bool]) -> list[bytes]:
    group_id, first, count, ends = told
    return [
        records.encode(Fields(b"x", group=(group_id, n, ends and n == first + count - 1)))
        for n in range(first, first + count)
    ]


batches = st.lists(
    st.lists(
        members.map(lambda x: [member(x)]) | runs.map(run) | alone.map(lambda x: [x]), max_size=6
    ).map(lambda pieces: [record for piece in pieces for record in piece]),
    max_size=4,
)
steps = st.lists(
    st.tuples(st.sampled_from(["take", "take", "ack", "back"]), st.integers(1, 9)), max_size=12
)


class Both:
    """A queue and its store, with one consumer."""

    def __init__(self, order: int, *, depth_max: int = 10**6) -> None:
        self.store, self.stamper = MemoryStore(), Stamper("QM1", 7)
        bounds = Bounds(depth_max, 10**9, 1_000, 100)
        self.queue = Queue(1, "Q", bounds, Counters(), Ids(1), Schedule())
        self.consumer = Consumer(1, 1, lessee(self.queue), 10**6, 10**9)
        self.consumer.order = order
        self.consumer.reader = Reader(1, "app", 1, order)
        self.queue.groups.held_groups.open(self.consumer.reader)

    def put(self, batch: list[bytes]) -> Any:
        done = put(self.queue, self.store, NOW, self.stamper, batch, 10_000)
        ids = [(first + i, stamp + i) for first, stamp, count in done.stamped for i in range(count)]
        self.queue.refresh_groups(self.store, NOW)
        return [(i, e.code, e.text) for i, e in done.refused], ids

    def do(self, what: str, number: int) -> Any:
        said: Any = None
        leases = list(self.queue.leases.values())
        if what == "take":
            found = take_in_order(self.queue, self.store, NOW, self.consumer, number)
            heads = [DELIVERY.unpack_from(item) for item in found.items]
            rest = [item[DELIVERY.size :] for item in found.items]
            said = [head[:2] + head[3:] for head in heads], rest, found.at_end
        elif leases and what == "ack":
            chosen = [lease for lease in leases if lease.arrival % number < 3]
            handles = b"".join(HANDLE.pack(x.priority, x.arrival, x.number) for x in chosen)
            said = settle.ack_all(
                self.queue, self.store, NOW, handles, self.consumer.lessee.numbers
            )
        elif leases:
            lease = leases[number % len(leases)]
            for behind in settle.return_to_queue(self.queue, self.store, lease, failed=True):
                settle.return_to_queue(self.queue, self.store, behind)
        self.queue.refresh_groups(self.store, NOW)
        return said

    def state(self) -> Any:
        self.queue.flush(self.store)
        groups, held_groups = self.queue.groups, self.queue.groups.held_groups
        held = {
            x: (hold.next, hold.has_ended, hold.out, hold.going)
            for x, hold in held_groups.by_group.items()
        }
        leases = {
            x.arrival: (x.priority, x.size, x.key, x.index_key) for x in self.queue.leases.values()
        }
        positions = groups.heads, groups.whole_heads, groups.rest_heads, self.queue.positions.ready
        index = keys.of_queue(keys.SPACE_GROUP, self.queue.id)
        rows = {key: row for key, row in self.store.rows.items() if not key.startswith(index)}
        members = indexed(self.store.rows, self.queue.id)
        return rows, members, self.queue.counters, held, leases, positions


def outcome(told: list[list[bytes]], todo: list[Any], order: int, depth_max: int) -> Any:
    both = Both(order, depth_max=depth_max)
    said = []
    for batch in told:
        said.append(both.put(batch))
        said += [both.do(what, number) for what, number in todo]
    return said, both.state(), both.stamper.last_us


@given(batches, steps, st.sampled_from([LOGICAL, PINNED]), st.sampled_from([10**6, 5]))
def test_runs_are_put_taken_and_acknowledged_as_all_others(
    told: list[list[bytes]], todo: list[Any], order: int, depth_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "DELIVER_MAX_BYTES", 12_000)
        fast = outcome(told, todo, order, depth_max)
        patch.setattr(puts, "may_begin_run", lambda record: False)
        patch.setattr(group_follow, "take_run", lambda *x: (x[6], x[9]))
        slow = outcome(told, todo, order, depth_max)
    assert fast == slow


def test_runs_take_the_tight_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the test above would compare the slow paths with themselves."""
    both = Both(PINNED)
    monkeypatch.setattr(puts, "prepare", None)
    batch = run((IDS[0], 1, 5, False)) + run((IDS[1], 1, 3, True)) + run((IDS[0], 6, 2, True))
    refused, stamped = both.put(batch)
    assert refused == []
    assert len(stamped) == 10
    monkeypatch.setattr(group_follow, "lease", None)
    heads, _, _ = both.do("take", 100)
    assert len(heads) == 10
    monkeypatch.setattr(settle, "_ack", None)
    assert both.do("ack", 1) == []
    assert both.state()[2].depth == 0


@pytest.mark.parametrize("length", range(60))
def test_truncated_record_is_not_part_of_a_run(length: int) -> None:
    data = records.encode(Fields(b"body", group=(IDS[0], 1, False)))[:length]
    both = Both(LOGICAL)
    refused, _ = both.put([data])
    assert len(refused) == (length < 56)


def test_run_ends_with_its_group() -> None:
    both = Both(LOGICAL)
    refused, _ = both.put([*run((IDS[0], 1, 2, True)), *run((IDS[0], 3, 2, False))])
    assert [(index, code.name) for index, code, _ in refused] == [
        (2, "GROUP_ENDED"),
        (3, "GROUP_ENDED"),
    ]
