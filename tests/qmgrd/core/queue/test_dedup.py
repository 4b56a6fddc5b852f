"""Tests of duplicate detection in constant time (docs/behaviour.md, A; IPCOM000015189D)."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid, encode_uid
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import dedup
from qmgrd.core.queue.dedup import OriginTable, UidVerdict
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record
from tests.qmgrd.core.naive import NaiveQueue

DUPLICATE = ErrorCode.DUPLICATE_MESSAGE


class LookingStore(MemoryStore):
    """A store that counts the reads of each key space. Spaces 10 and 11 contain messages."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[bytes] = Counter()

    def get(self, key: bytes) -> bytes | None:
        self.reads[key[:1]] += 1
        return super().get(key)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for pair in super().scan(start, stop):
            self.reads[pair[0][:1]] += 1
            yield pair

    @property
    def looks(self) -> int:
        """Returns the number of reads of messages and of the index of messages."""
        return self.reads[keys.SPACE_MESSAGE] + self.reads[keys.SPACE_UID]


def put(app: Client, origin: str, timestamp: int, queue: str = "Q") -> ErrorCode | None:
    refused = app.put_records(queue, record(b"%d" % timestamp, uid=(origin, timestamp)))
    return refused[0].code if refused else None


def counts(app: Client) -> tuple[int, int, int]:
    row = app.show("Q")
    return row["fast"], row["slow"], row["duplicates"]


def test_equal_timestamps_of_two_origins_are_two_messages_A1(app: Client) -> None:
    """A1: A UID consists of an origin and a timestamp, and is printed as origin.timestamp."""
    assert [put(app, *uid) for uid in [("A", 7), ("A", 8), ("B", 7)]] == [None] * 3
    assert [str(x.uid) for x in app.browse("Q")] == ["A.7", "A.8", "B.7"]


@pytest.mark.parametrize("uids", [[("A", 1), ("AA", 1)], [("AB", 0x43 << 56), ("ABC", 0)]])
def test_origins_with_a_common_prefix_are_distinct_A1(
    app: Client, uids: list[tuple[str, int]]
) -> None:
    assert [put(app, *uid) for uid in uids] == [None] * 2
    assert [put(app, *uid) for uid in uids] == [DUPLICATE] * 2


def test_stamped_timestamps_increase_A2(app: Client) -> None:
    """A2: The UIDs of many puts within one tick of the clock are distinct."""
    app.put("Q", *[b"x"] * 3_000)
    app.put("Q", *[b"x"] * 1_000)
    stamps = [x.uid.timestamp for x in app.browse("Q")]
    assert len(stamps) == 4_000
    assert all(a < b for a, b in pairwise(stamps))


@pytest.mark.parametrize("clean", [True, False])
def test_clock_set_back_over_a_restart_A3(store: AnyStore, app: Client, clean: bool) -> None:
    """A3: After a step back by an hour and a restart, timestamps continue above the last one."""
    manager = app.manager
    app.put("Q", *[b"x"] * 1_000)
    last = app.browse("Q")[-1].uid.timestamp
    manager.wall_us -= 3_600_000_000
    if clean:
        manager.restart()
    else:
        manager.crash()
    app = manager.connect()
    app.put("Q", *[b"y"] * 1_000)
    stamps = [x.uid.timestamp for x in app.browse("Q")]
    assert stamps[1_000] > last
    assert len(set(stamps)) == 2_000
    assert counts(app) == (2_000, 0, 0)


def test_table_has_the_highest_timestamp_of_each_origin_A4(app: Client) -> None:
    """A4: Each queue's table has one entry per origin."""
    app.ask(m.QueueCreate, "OTHER")
    for uid in [("A", 1), ("B", 5), ("A", 3), ("C", 2), ("A", 2)]:
        put(app, *uid)
    put(app, "A", 1, "OTHER")
    assert app.show("Q")["origins"] == {"A": 3, "B": 5, "C": 2}
    assert app.show("OTHER")["origins"] == {"A": 1}


def test_size_of_the_table_is_the_number_of_origins_A4(app: Client) -> None:
    for timestamp in range(1, 200):
        put(app, "A", timestamp)
    prefix = keys.of_queue(keys.SPACE_ORIGIN, app.manager.queue("Q").id)
    assert len(app.manager.scan(prefix)) == 1


@pytest.mark.slow
def test_fast_path_looks_at_no_message_A5() -> None:
    """A5: 10^5 puts in order of creation read no message and no index of messages."""
    manager = Manager(LookingStore())
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    manager.store.reads.clear()
    for start in range(0, 100_000, 1_000):
        uids = [("A" if i % 2 else "B", i) for i in range(start, start + 1_000)]
        assert app.put_records("Q", *(record(b"x", uid=uid) for uid in uids)) == []
    assert manager.store.looks == 0
    assert manager.queue("Q").counters.fast == 100_000


def test_cost_of_a_put_does_not_depend_on_depth_A6() -> None:
    """A6: A put makes the same number of reads at depth 10, 10^3 and 10^5."""
    costs = []
    for depth in (10, 1_000, 100_000):
        manager = Manager(LookingStore())
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put("Q", *[b"x"] * depth)
        manager.store.reads.clear()
        app.put("Q", b"one more")
        costs.append((manager.store.looks, sum(manager.store.reads.values())))
    assert costs[0][0] == 0
    assert costs[0] == costs[1] == costs[2]


def test_slow_path_asks_the_index_once_at_any_depth_A6() -> None:
    """A6, D1: A late message costs one read, and a duplicate two. The plain queue searches.

    The queue checks the index's answer against the message itself, whose UID may be damaged.
    """
    for depth in (10, 1_000, 10_000):
        manager = Manager(LookingStore())
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        batch = [record(b"x", uid=("A", 2 * i)) for i in range(1, depth + 1)]
        assert app.put_records("Q", *batch) == []
        manager.store.reads.clear()
        assert put(app, "A", 3) is None
        assert manager.store.looks == 1
        assert put(app, "A", 4) is DUPLICATE
        assert manager.store.looks == 1 + 2


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_filling_compares_nothing_where_the_plain_queue_compares_all_A7(count: int) -> None:
    """A7: Filling with n messages costs n(n-1)/2 comparisons in the plain queue and none here."""
    uids = [("A", i) for i in range(1, count + 1)]
    naive = NaiveQueue()
    assert all(naive.put(encode_uid(Uid(*uid))) for uid in uids)
    manager = Manager(LookingStore())
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    manager.store.reads.clear()
    assert app.put_records("Q", *(record(b"", uid=uid) for uid in uids)) == []
    print(
        f"filling with {count}: {naive.comparisons} comparisons plain, {manager.store.looks} here"
    )
    assert naive.comparisons == count * (count - 1) // 2
    assert manager.store.looks == 0


def test_equal_timestamp_takes_the_slow_path_A8(app: Client) -> None:
    """A8: The second of two consecutive puts of one UID is refused."""
    assert put(app, "A", 5) is None
    assert put(app, "A", 5) is DUPLICATE
    assert counts(app) == (1, 0, 1)


def test_late_message_is_accepted_by_search_A9(app: Client) -> None:
    """A9: Timestamps 1, 3 and 2 are all accepted, and one of the puts took the slow path."""
    assert [put(app, "A", t) for t in (1, 3, 2)] == [None] * 3
    assert app.bodies("Q") == [b"1", b"3", b"2"]
    assert counts(app) == (2, 1, 0)


def test_duplicate_of_an_older_message_changes_nothing_A10(app: Client) -> None:
    """A10: After 1, 2 and 3, a second 2 is refused with a separate code."""
    for timestamp in (1, 2, 3):
        put(app, "A", timestamp)
    before = app.browse("Q"), app.show("Q")["origins"]
    refused = app.put_records("Q", record(b"other", uid=("A", 2)))
    assert [(x.code, x.text) for x in refused] == [
        (DUPLICATE, "message A.2 already exists on queue Q")
    ]
    assert (app.browse("Q"), app.show("Q")["origins"]) == before
    assert DUPLICATE not in (ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_BYTES_FULL)


def test_duplicate_of_a_consumed_message_is_reported_as_such(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"dedup_retention_ms": 60_000})
    app.put("Q", b"x", uid=("A", 2))
    app.ack(*app.get("Q"))
    (refused,) = app.put_records("Q", record(b"x", uid=("A", 2)))
    assert (refused.code, refused.text) == (
        DUPLICATE,
        "message A.2 was consumed from queue Q, which remembers UIDs for 60000 ms after "
        "consumption (dedup_retention_ms)",
    )


def test_duplicate_is_reported_before_a_full_queue_A10(app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    assert put(app, "A", 5, "SMALL") is None
    assert put(app, "A", 5, "SMALL") is DUPLICATE
    assert put(app, "A", 6, "SMALL") is ErrorCode.QUEUE_FULL


def test_criterion_is_being_on_the_queue_A11(app: Client) -> None:
    """A11: After a get, the UID is accepted again, because the message has left the queue."""
    put(app, "A", 5)
    app.ack(*app.get("Q"))
    assert put(app, "A", 5) is None
    assert app.bodies("Q") == [b"5"]
    assert counts(app) == (1, 1, 0)


def test_leased_message_is_on_the_queue_A12(app: Client) -> None:
    """A12: A message is on the queue while it is leased, and after it is released again."""
    put(app, "A", 5)
    (lease,) = app.get("Q")
    assert put(app, "A", 5) is DUPLICATE
    app.release(lease)
    assert put(app, "A", 5) is DUPLICATE


def test_entry_is_never_lowered_A13(app: Client) -> None:
    """A13: The slow path, and not the fast one, finds that a removed message does not exist."""
    put(app, "A", 9)
    app.ack(*app.get("Q"))
    assert [put(app, "A", 9), put(app, "A", 8)] == [None, None]
    assert counts(app) == (1, 2, 0)
    assert app.show("Q")["origins"] == {"A": 9}


def test_refused_put_does_not_raise_the_entry(app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    put(app, "A", 5, "SMALL")
    assert put(app, "A", 9, "SMALL") is ErrorCode.QUEUE_FULL
    assert app.show("SMALL")["origins"] == {"A": 5}


def test_restart_keeps_the_table_A15(store: AnyStore, app: Client) -> None:
    """A15: This test runs in one process. tests/process/test_bad_days.py tests a kill -9."""
    for start in range(1, 1_000, 100):
        batch = [record(b"x", uid=("A", t)) for t in range(start, start + 100)]
        assert app.put_records("Q", *batch) == []
    app.manager.crash()
    app = app.manager.connect()
    assert put(app, "A", 500) is DUPLICATE
    assert put(app, "A", 1_001) is None
    assert counts(app) == (1_001, 0, 1)


def test_many_clients_put_the_same_uids_at_once_A17(manager: Manager, app: Client) -> None:
    """A17: 16 connections put the same 1,000 UIDs in the same turns. 1,000 messages are stored."""
    clients = [manager.connect(f"c{i}") for i in range(16)]
    producers = [client.producer() for client in clients]
    rng = random.Random(17)
    order = [rng.sample(range(1_000), 1_000) for _ in producers]
    for start in range(0, 1_000, 50):
        for producer, mine in zip(producers, order, strict=True):
            batch = [record(b"x", uid=("A", t)) for t in mine[start : start + 50]]
            producer.client.send(m.Put(producer.stream, start + 1, 0, "Q", batch))
        manager.turn()
    manager.rest()
    refused = [
        len(x.refused) for client in clients for x in client.hear() if type(x) is m.Committed
    ]
    assert sum(refused) == 15_000
    assert len({x.uid for x in app.browse("Q")}) == len(app.browse("Q")) == 1_000


def append(tx: MemoryStore, table: OriginTable, uid: bytes, arrival: int) -> None:
    """Stores a message with the encoded *uid* on queue 1, as the queue does."""
    key = keys.message(1, keys.LANE_READY, 4, arrival)
    tx.put(
        key, entries.encode_head(0) + record(b"", uid=(uid[:-8].decode(), int.from_bytes(uid[-8:])))
    )
    tx.put(table.index_key(uid), key[5:])
    table.raise_to(tx, uid[:-8], int.from_bytes(uid[-8:], "big"))


def run_differential(steps: int, seed: int) -> None:
    """A19: The same puts, duplicates and removals on both queues must get the same answers."""
    rng = random.Random(seed)
    tx, table, naive = MemoryStore(), OriginTable(1), NaiveQueue()
    ticks = dict.fromkeys((b"A", b"B", b"AB"), 0)
    verdicts: Counter[UidVerdict] = Counter()
    for step in range(steps):
        if naive.uids and (len(naive.uids) > 60 or rng.random() < 0.3):
            gone = rng.choice(naive.uids)
            naive.remove([gone])
            tx.delete(table.index_key(gone))
            continue
        origin = rng.choice(list(ticks))
        if rng.random() < 0.6:
            ticks[origin] += rng.randint(1, 3)
            timestamp = ticks[origin]
        else:
            timestamp = rng.randint(max(0, ticks[origin] - 80), ticks[origin])
        uid = origin + timestamp.to_bytes(8, "big")
        verdict = table.check_uid(tx, uid)
        assert (verdict is not UidVerdict.DUPLICATE) == naive.put(uid), f"seed {seed}, step {step}"
        verdicts[verdict] += 1
        if verdict is not UidVerdict.DUPLICATE:
            append(tx, table, uid, step)
        if step % 1_000 == 0:
            table.flush(tx)
            table = OriginTable(1)  # After a restart, only stored data remains.
    assert min(verdicts[verdict] for verdict in UidVerdict) > steps / 50


@pytest.mark.parametrize("seed", range(4))
def test_verdicts_are_those_of_the_plain_queue_A19(seed: int) -> None:
    """A19: the runs have 10^5 steps in total."""
    run_differential(25_000, seed)


@pytest.mark.long
@pytest.mark.slow
def test_verdicts_are_those_of_the_plain_queue_over_a_million_steps_A19() -> None:
    """A19: the runs have 10^6 steps in total."""
    run_differential(1_000_000, seed=19)


def test_counters_add_up_A20(app: Client) -> None:
    """A20: fast + slow = puts, and puts + duplicates + refused = requested puts."""
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 30})
    rng = random.Random(20)
    for _ in range(200):
        put(app, rng.choice("AB"), rng.randint(1, 40), "SMALL")
    row = app.show("SMALL")
    assert row["fast"] + row["slow"] == row["puts"] == row["depth"] == 30
    assert row["puts"] + row["duplicates"] + row["refused"] == 200
    assert min(row["fast"], row["slow"], row["duplicates"], row["refused"]) > 0


def test_cache_of_origins_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon reads entries beyond the limit of the cache from the store."""
    monkeypatch.setattr(dedup, "ORIGINS_CACHED_MAX", 10)
    tx, table = MemoryStore(), OriginTable(1)
    for i in range(25):
        uid = encode_uid(Uid(f"O{i}", 5))
        assert table.check_uid(tx, uid) is UidVerdict.FAST
        append(tx, table, uid, i)
        table.flush(tx)
        assert len(table._highest) <= 10
    assert all(
        table.check_uid(tx, encode_uid(Uid(f"O{i}", 5))) is UidVerdict.DUPLICATE for i in range(25)
    )
    shown, further = table.entries(tx, "", 7)
    found, pages = list(shown), 1
    while further is not None:
        shown, further = table.entries(tx, further, 7)
        found, pages = [*found, *shown], pages + 1
    assert (found, pages) == (sorted(f"O{i}" for i in range(25)), 4)
    assert table.entries(tx, "", 25)[1] is None


def test_one_uid_may_wait_for_a_link_once_per_target_queue(store: AnyStore, app: Client) -> None:
    """Each queue has a separate table, as at the target."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    for queue in ("F@NYC", "G@NYC"):
        app.ask(m.QueueCreate, queue)
    assert put(app, "A", 5, "F@NYC") is None
    assert put(app, "A", 5, "G@NYC") is None
    assert put(app, "A", 5, "F@NYC") is DUPLICATE
    assert put(app, "A", 5, "G@NYC") is DUPLICATE
    assert app.show("@NYC")["depth"] == 2


def test_damaged_entry_never_lets_a_duplicate_in(store: AnyStore, app: Client) -> None:
    """The value of the entry is unknown, so from then on the index decides."""
    put(app, "A", 5)
    manager = app.manager
    key = keys.of_queue(keys.SPACE_ORIGIN, manager.queue("Q").id) + b"A"
    tx = manager.store.begin()
    tx.put(key, bytes(8) + (tx.get(key) or b"")[8:])
    manager.store.commit()
    manager.crash()
    again = manager.connect()
    (refused,) = again.put_records("Q", record(b"x", uid=("A", 5)))
    assert refused.code == ErrorCode.DUPLICATE_MESSAGE
    assert again.put_records("Q", record(b"x", uid=("A", 6))) == []
    assert manager.queue("Q").counters.slow == 1
