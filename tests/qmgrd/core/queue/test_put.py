"""Tests that the tight loop and the general loop store the same bytes and give the same answers."""

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Fields, Uid
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import plain
from qmgrd.core.queue import put as puts
from qmgrd.core.queue.put import put
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore
from tests.qmgrd.core.any_record import PLAIN_MAX, any_record
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.harness import Client
from tests.qmgrd.core.harness import record as harness_record

NOW = Now(1, 1_700_000_000_000_000)


def outcome(batches: list[list[bytes]], target: str, bounds: Bounds) -> Any:
    """Returns the answers, rows and counters after *batches*, which are put one after another."""
    store, stamper = MemoryStore(), Stamper("QM1", 7)
    queue = Queue(1, "Q", bounds, Counters(), Ids(1), Schedule(), is_transmission=bool(target))
    said = []
    for batch in batches:
        done = put(queue, store, NOW, stamper, batch, 5_000, target)
        ids = [(first + i, stamp + i) for first, stamp, count in done.stamped for i in range(count)]
        said.append(([(i, e.code, e.text) for i, e in done.refused], ids, store.rows_used))
    queue.refresh_groups(store, NOW)
    queue.flush(store)
    return said, dict(store.rows), queue.counters, stamper.last_us


@given(
    st.lists(st.lists(any_record, max_size=8), max_size=3),
    st.sampled_from(["", "F"]),
    st.sampled_from([(10**6, 10**9), (3, 10**9), (10**6, 1_000)]),
)
def test_plain_records_are_put_as_all_others(
    batches: list[list[bytes]], target: str, limits: tuple[int, int]
) -> None:
    bounds = Bounds(*limits, 1_000, 100)
    fast = outcome(batches, target, bounds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_PLAIN_MAX_BYTES", 0)
        slow = outcome(batches, target, bounds)
    assert fast == slow


def test_plain_records_take_the_tight_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the test above would compare the general loop with itself."""
    monkeypatch.setattr(puts, "prepare", None)
    batch = [
        *(records.encode(Fields(bytes(size))) for size in (0, 256, PLAIN_MAX)),
        records.encode(Fields(b"x", correlation_id=b"c" * 64, envelope={"h": 1})),
        records.encode(Fields(b"x", priority=9, flags=records.FLAG_PRIORITY_OF_QUEUE)),
    ]
    said, _, counters, _ = outcome([batch], "", Bounds(10, 10**6, 1_000, 100))
    assert said == [([], [(i, NOW.wall_us + i) for i in range(5)], 6)]
    assert (counters.depth, counters.fast) == (5, 5)


@pytest.mark.parametrize(
    "changed",
    [
        {"correlation_length": 65, "body_length": 100 - 65},
        {"expiry_ms": records.EXPIRY_END},
        {"correlation_length": 1},
        {"envelope_length": 1},
        {"body_length": 99},
        {"priority": 10},
        {"version": 2},
        {"flags": 0x10},
    ],
    ids=str,
)
def test_record_out_of_range_is_refused_among_plain_records(changed: dict[str, int]) -> None:
    short = records.encode(Fields(bytes(100)))
    head = records.Head._make(records.HEAD.unpack_from(short))._replace(**changed)
    rest = records.HEAD.pack(*head)[4:] + short[records.HEAD_BYTES :]
    wrong = crc32(rest[1:]).to_bytes(4, "big") + rest
    said, _, counters, _ = outcome([[short, wrong, short]], "", Bounds(10, 10**6, 1_000, 100))
    (refused, stamped, _), *_ = said
    assert [(i, code) for i, code, _ in refused] == [(1, ErrorCode.RECORD_MALFORMED)]
    assert [i for i, _ in stamped] == [0, 2]
    assert (counters.depth, counters.refused) == (2, 1)


@pytest.mark.parametrize(
    ("bounds", "code", "text"),
    [
        ((1, 10**6), ErrorCode.QUEUE_FULL, "queue Q is full: it has 1 message, and the limit is 1"),
        (
            (10, 60),
            ErrorCode.QUEUE_BYTES_FULL,
            "queue Q has 36 bytes, and 25 more exceed the limit of 60",
        ),
    ],
)
def test_full_queue_reports_when_to_retry(
    bounds: tuple[int, int], code: ErrorCode, text: str
) -> None:
    queue = Queue(1, "Q", Bounds(*bounds, 1_000, 100), Counters(), Ids(1), Schedule())
    batch = [records.encode(Fields(b"x"))] * 2
    ((index, error),) = put(queue, MemoryStore(), NOW, Stamper("QM1", 0), batch, 99).refused
    assert (index, error.code, error.text, error.retry_after_ms) == (1, code, text, 1_000)


def test_runs_of_stamps_break_at_a_record_that_needs_none() -> None:
    queue = Queue(1, "Q", Bounds(10, 10**6, 1_000, 100), Counters(), Ids(1), Schedule())
    short = records.encode(Fields(b"x"))
    other = records.encode(Fields(b"x", uid=Uid("B", 1)))
    done = put(queue, MemoryStore(), NOW, Stamper("QM1", 0), [short, short, other, short, b""], 99)
    first = NOW.wall_us
    assert done.stamped == [[0, first, 2], [3, first + 2, 1]]
    assert [(i, error.code) for i, error in done.refused] == [(4, ErrorCode.RECORD_MALFORMED)]


PLAIN = records.encode(Fields(b"x"))
STAMPED = records.encode(Fields(b"x", uid=Uid("BOS", NOW.wall_us)))


@pytest.mark.parametrize(
    ("bytes_max", "message_max_bytes", "codes"),
    [
        (len(STAMPED), len(PLAIN), []),
        (len(STAMPED) - 1, len(PLAIN), [ErrorCode.QUEUE_BYTES_FULL]),
        (len(STAMPED), len(PLAIN) - 1, [ErrorCode.MESSAGE_TOO_LARGE]),
    ],
)
def test_limits_hold_to_the_byte(
    bytes_max: int, message_max_bytes: int, codes: list[ErrorCode]
) -> None:
    queue = Queue(1, "Q", Bounds(10, bytes_max, 1_000, 100), Counters(), Ids(1), Schedule())
    done = put(queue, MemoryStore(), NOW, Stamper("QM1", 0), [STAMPED], message_max_bytes)
    assert [error.code for _, error in done.refused] == codes


def test_duplicate_is_named() -> None:
    said, *_ = outcome([[STAMPED, STAMPED]], "", Bounds(10, 10**6, 1_000, 100))
    text = f"message BOS.{NOW.wall_us} already exists on queue Q"
    assert said[0][0] == [(1, ErrorCode.DUPLICATE_MESSAGE, text)]


@pytest.mark.parametrize("size", [1, 4_000, 9_000])
def test_rows_that_are_written_are_counted(size: int) -> None:
    said, rows, _, _ = outcome(
        [[records.encode(Fields(bytes(size)))]], "", Bounds(10, 10**6, 1_000, 100)
    )
    written = {keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_BODY}
    assert said[0][2] == sum(key[:1] in written for key in rows)


def test_tight_loop_processes_one_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying the rest after each record that is not plain would have quadratic cost."""
    copied: list[int] = []
    put_plain = plain.put_plain

    def counting(queue: Any, tx: Any, now: Any, stamper: Any, batch: Any, *rest: Any) -> int:
        copied.append(len(batch))
        return put_plain(queue, tx, now, stamper, batch, *rest)

    monkeypatch.setattr(plain, "put_plain", counting)
    short, other = records.encode(Fields(b"x")), records.encode(Fields(b"x", expiry_ms=1))
    queue = Queue(1, "Q", Bounds(10**4, 10**9, 1_000, 100), Counters(), Ids(1), Schedule())
    done = put(queue, MemoryStore(), NOW, Stamper("QM1", 0), [short] * 700 + [other, short], 99)
    assert (sum(count for _, _, count in done.stamped), done.refused) == (702, [])
    assert max(copied) == puts.RUN_MAX_RECORDS


def test_queue_sets_the_priority_of_messages_without_one(app: Client) -> None:
    """The queue's priority applies to all new records, but not to messages stored earlier."""
    app.ask(m.QueueAlter, "Q", {"priority_default": 7})
    for fields in ({}, {"uid": ("O", 1)}, {"expiry_ms": 9_000}):
        app.put("Q", b"x", flags=records.FLAG_PRIORITY_OF_QUEUE, **fields)
    app.put("Q", b"own", priority=2)
    app.ask(m.QueueAlter, "Q", {"priority_default": 1})
    app.put("Q", b"later", flags=records.FLAG_PRIORITY_OF_QUEUE)
    assert [x.priority for x in app.browse("Q")] == [7, 7, 7, 2, 1]


@pytest.mark.parametrize("fields", [{}, {"uid": ("O", 1)}])
def test_message_longer_than_the_limit_of_the_queue_is_refused_G13(
    app: Client, fields: dict[str, Any]
) -> None:
    size = len(harness_record(b""))  # The UID does not count towards the size.
    app.ask(m.QueueAlter, "Q", {"message_max_bytes": 2_000})
    app.put("Q", bytes(2_000 - size), **fields)
    more = fields and {"uid": ("O", 2)}
    (refused,) = app.put_records("Q", harness_record(bytes(2_001 - size), **more))
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "the limit of 2000" in refused.text


EXTRAS = [
    ({m.EXTRA_EXPIRY_MS: b"abc"}, 1_000),
    ({m.EXTRA_EXPIRY_MS: 2**63 - 1}, 2**63 - 1),
    ({m.EXTRA_EXPIRY_MS: 0}, 0),
    ({m.EXTRA_EXPIRY_MS: 7}, 7),
    ({m.EXTRA_DELAY_MS: b"abc"}, 1_000),
    ({m.EXTRA_DELAY_MS: 2**63 - 1}, 1_000),
    ({m.EXTRA_NOTE: 5}, 1_000),
    ({m.EXTRA_NOTE: b"\xc1"}, 1_000),
    ({"unknown": b"x"}, 1_000),
]


@pytest.mark.parametrize(("extra", "lasts_ms"), EXTRAS)
def test_extra_fields_of_a_link_are_checked(
    app: Client, extra: dict[str, Any], lasts_ms: int
) -> None:
    """No message from a peer may make a turn fail."""
    far = Far(app.manager)
    far.open()
    sent = harness_record(b"x", uid=("FAR", 1), expiry_ms=1_000)
    far.client.say(m.Put(far.stream, 1, 0, "Q", [sent], [[0, extra], [9, extra]]))
    row = app.show("Q")
    assert row["depth"] + row["delayed"] == 1
    ((_, value),) = app.manager.scan(keys.of_queue(keys.SPACE_MESSAGE, app.manager.queue("Q").id))
    expected = min(app.manager.now().ms + lasts_ms, 2**63) if lasts_ms else 0
    assert entries.decode(value).expires_ms == expected
