"""Tests of due work: expiry, delay, forgotten UIDs, and messages lost in a restart."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.system import DEAD_LETTERS, EVENTS
from qmgrd.core.jobs.due_work import SLICE_ROWS
from qmgrd.core.layout import keys
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record

YEAR_MS = 365 * 24 * 3_600_000
VOLATILE = records.FLAG_NOT_PERSISTENT


def run_due_work(manager: Manager, ms: int = 0) -> int:
    """Advances the clock by *ms*, then runs turns while work is due; returns their number."""
    manager.turn(ms)
    for count in range(1, 10_000):
        due_ms = manager.turns.broker.context.schedule.next_ms
        if (due_ms is None or due_ms > manager.now().ms) and not manager.turns.has_work:
            return count
        manager.turn()
    raise AssertionError("the manager is never idle")


def counts(app: Client, queue: str = "Q") -> tuple[int, int, int, int]:
    row = app.show(queue)
    return row["depth"], row["delayed"], row["expired"], row["lost"]


def events(app: Client) -> list[dict[str, Any]]:
    return [json.loads(body) for body in app.bodies(EVENTS)]


def scheduled(manager: Manager) -> int:
    return len(manager.scan(keys.SPACE_DUE))


# -- expiry


def test_expired_message_is_not_had_even_before_it_is_swept_G12(app: Client) -> None:
    """Gets with any selection and browses skip expired messages."""
    app.put("Q", b"short", expiry_ms=1_000, correlation_id=b"c", group=(b"g" * 24, 1, False))
    app.put("Q", b"long", expiry_ms=5_000)
    uid = records.encode_uid(app.browse("Q")[0].uid)
    manager = app.manager
    manager.turn(1_000 - 1)
    manager.advance(1)
    kept = manager.turns.broker.due_work.run
    manager.turns.broker.due_work.run = lambda: None  # type: ignore[method-assign]
    assert app.bodies("Q") == [b"long"]
    selections: list[dict[str, Any]] = [
        {"correlation_id": b"c"},
        {"group_id": b"g" * 24},
        {"uid": uid},
        {"where": "correlation_id = 'c'"},
    ]
    for fields in selections:
        assert app.ask(m.Get, *m.Get(0, "Q", **fields)[1:]) is None
    assert [x.body for x in app.get("Q", 9)] == [b"long"]
    manager.turns.broker.due_work.run = kept  # type: ignore[method-assign]
    run_due_work(manager)


def test_it_is_swept_and_counted_and_leaves_no_row_G12(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", bytes(9_000), expiry_ms=1_000, correlation_id=b"c")
    app.put("Q", b"stays")
    run_due_work(app.manager, 999)
    assert counts(app) == (3, 0, 0, 0)
    run_due_work(app.manager, 1)
    assert counts(app) == (1, 0, 2, 0)
    assert scheduled(app.manager) == 0


def test_cap_of_the_queue_holds_for_those_without_a_time_and_for_longer_ones_G12(
    store: AnyStore, app: Client
) -> None:
    app.ask(m.QueueAlter, "Q", {"expiry_max_ms": 2_000})
    app.put("Q", b"none")
    app.put("Q", b"long", expiry_ms=YEAR_MS)
    app.put("Q", b"short", expiry_ms=500)
    app.manager.crash()
    app = app.manager.connect()
    run_due_work(app.manager, 500)
    assert app.bodies("Q") == [b"none", b"long"]
    run_due_work(app.manager, 1_499)
    assert app.bodies("Q") == [b"none", b"long"]
    run_due_work(app.manager, 1)
    assert counts(app) == (0, 0, 3, 0)


def test_delivery_has_the_remaining_lifetime(app: Client) -> None:
    app.put("Q", b"1", expiry_ms=1_000)
    app.manager.advance(400)
    (found,) = app.get("Q")
    assert found.state & m.STATE_EXPIRES
    assert m.REMAINING.unpack(found.tail) == (600,)


def test_leased_message_expires_once_it_comes_back(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", expiry_ms=1_000)
    (held,) = app.get("Q", lease_ms=3_600_000)
    for _ in range(50):
        run_due_work(app.manager, 10_000)
    assert counts(app) == (1, 0, 0, 0)
    assert app.release(held) == []
    assert app.get("Q") == []
    # The message becomes a dead letter immediately, and not at the next scheduled check.
    run_due_work(app.manager)
    assert counts(app) == (0, 0, 1, 0)


def test_leased_message_that_expired_can_be_consumed(app: Client) -> None:
    app.put("Q", b"1", expiry_ms=1_000)
    (held,) = app.get("Q", lease_ms=3_600_000)
    run_due_work(app.manager, 5_000)
    assert app.ack(held) == []
    run_due_work(app.manager, 3_600_000)
    assert counts(app) == (0, 0, 0, 0)
    assert scheduled(app.manager) == 0


def test_long_lease_of_an_expired_message_is_checked_ever_less_often(app: Client) -> None:
    """A message leased for an hour after its expiry is checked about 70 times, not 3,600 times."""
    app.put("Q", b"1", expiry_ms=1_000)
    app.get("Q", lease_ms=5_000_000)
    context, looks = app.manager.turns.broker.context, 0
    for _ in range(3_600):
        app.manager.advance(1_000)
        due_ms = context.schedule.next_ms
        assert due_ms is not None
        if due_ms <= app.manager.now().ms:
            looks += 1
            app.manager.turn()
    assert 60 <= looks <= 80


def test_many_expire_a_slice_a_turn_G12(manager: Manager, app: Client) -> None:
    count = 5 * SLICE_ROWS
    app.put("Q", *[b"x"] * count, expiry_ms=1_000)
    app.put("Q", b"stays")
    manager.advance(1_000)
    depths = []
    while manager.queue("Q").counters.depth > 1:
        manager.turn()
        depths.append(manager.queue("Q").counters.depth)
        assert manager.turns.broker.context.rows < 10 * SLICE_ROWS
    assert len(depths) == 5
    (event,) = {x["event"] for x in events(app)}
    assert event == "message expired"
    assert sorted(x["count"] for x in events(app)) == [SLICE_ROWS] * 5  # Each turn logs one event.


def test_slices_of_long_messages_are_bounded_too(app: Client) -> None:
    for _ in range(20):
        app.put("Q", bytes(1_000_000), expiry_ms=1_000)  # Each message has 250 rows.
    manager = app.manager
    manager.advance(1_000)
    turns = 0
    while manager.queue("Q").counters.depth:
        manager.turn()
        turns += 1
        assert manager.turns.broker.context.rows < 5 * SLICE_ROWS
    assert turns >= 3


class Counted(MemoryStore):
    """A store that counts its reads."""

    reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return super().get(key)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(start, stop):
            self.reads += 1
            yield row


@pytest.mark.parametrize("depth", [100, 10_000])
def test_sweep_reads_what_is_due_and_not_the_queue_G12(depth: int) -> None:
    """The sweep reads a few rows per expired message, however deep the queue is."""
    store = Counted()
    manager = Manager(store)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"x"] * depth)
    app.put("Q", *[b"y"] * 50, expiry_ms=1_000)
    app.ask(m.QueueShow, EVENTS)
    manager.turn(1_000 - 1)
    before = store.reads
    manager.turn()
    assert store.reads == before  # Without due messages, the sweep reads nothing.
    manager.turn(1)
    assert manager.queue("Q").counters.expired == 50
    assert store.reads - before < 50 * 6
    audit(manager)


def test_expiry_in_a_unit_starts_at_the_put_G12_G20(app: Client) -> None:
    producer = app.producer()
    app.ask(m.UnitBegin, 7)
    app.ask(m.UnitPut, 7, "Q", [record(b"1", expiry_ms=1_000), record(b"2", expiry_ms=5_000)])
    app.manager.advance(1_000)
    app.send(m.UnitCommit(producer.stream, 1, 0, 7, 2, 0))
    app.manager.turn()
    assert app.bodies("Q") == [b"2"]
    run_due_work(app.manager)
    assert counts(app) == (1, 0, 1, 0)


def test_requested_report_is_put_to_the_reply_queue(store: AnyStore, app: Client) -> None:
    app.ask(m.QueueCreate, "REPLIES")
    envelope = {records.REPLY_TO: "REPLIES", records.HEADERS: {"h": 1}}
    app.put(
        "Q",
        b"1",
        expiry_ms=1_000,
        flags=records.FLAG_REPORT_EXPIRY,
        envelope=envelope,
        correlation_id=b"mine",
    )
    app.put("Q", b"silent", expiry_ms=1_000, envelope=envelope)
    uid = app.browse("Q")[0].uid
    run_due_work(app.manager, 1_000)
    (report,) = app.browse("REPLIES")
    fields = records.decode(report.record)
    assert fields.envelope[records.HEADERS] == {
        "report": "MESSAGE_EXPIRED",
        "uid": str(uid),
        "queue": "Q",
    }
    assert fields.correlation_id == b"mine"


def test_expired_publication_sends_no_report_to_its_publisher(app: Client) -> None:
    """Each subscription would send one, with its name, which the publisher may not know."""
    app.ask(m.QueueCreate, "REPLIES")
    for name in ("HR:1", "HR:2"):
        app.ask(m.Subscribe, "t/#", name)
    envelope = {records.REPLY_TO: "REPLIES"}
    app.put("/t/x", b"1", expiry_ms=1_000, flags=records.FLAG_REPORT_EXPIRY, envelope=envelope)
    run_due_work(app.manager)
    run_due_work(app.manager, 1_000)
    assert app.show("HR:1")["expired"] == app.show("HR:2")["expired"] == 1
    assert app.bodies("REPLIES") == []


def test_report_that_has_no_place_is_an_event(app: Client) -> None:
    envelope = {records.REPLY_TO: "NOWHERE"}
    app.put("Q", b"1", expiry_ms=1_000, flags=records.FLAG_REPORT_EXPIRY, envelope=envelope)
    app.put("Q", b"2", expiry_ms=1_000, flags=records.FLAG_REPORT_EXPIRY)
    run_due_work(app.manager, 1_000)
    assert counts(app) == (0, 0, 2, 0)
    assert [x["why"] for x in events(app) if x["event"] == "report has no place"] == [
        "QUEUE_UNKNOWN"
    ]


def expire_with_report(app: Client, reply_to: object) -> list[str]:
    """Expires a message that requests a report; returns the reason why no report was put."""
    envelope = {records.REPLY_TO: reply_to}
    app.put("Q", b"1", expiry_ms=1_000, flags=records.FLAG_REPORT_EXPIRY, envelope=envelope)
    run_due_work(app.manager, 1_000)
    return [x["why"] for x in events(app) if x["event"] == "report has no place"]


@pytest.mark.parametrize(
    ("reply_to", "why"),
    [
        (EVENTS, "QUEUE_IS_SYSTEM"),
        (DEAD_LETTERS, "QUEUE_IS_SYSTEM"),
        ("ALIAS", "QUEUE_IS_SYSTEM"),
        ("SYSTEM.PUBLICATIONS", "QUEUE_IS_SUBSCRIPTION"),
        ("@NYC", "QUEUE_IS_TRANSMISSION"),
        ("CLOSED", "PUT_INHIBITED"),
        ("FULL", "QUEUE_FULL"),
        ("no name", "NAME_INVALID"),
        ("/#", "TOPIC_INVALID"),
        ("", "NAME_INVALID"),
    ],
)
def test_report_is_dropped_if_its_client_could_not_put(
    app: Client, reply_to: str, why: str
) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": EVENTS})
    app.ask(m.QueueCreate, "CLOSED", {"put_inhibit": True})
    app.ask(m.QueueCreate, "FULL", {"depth_max": 1})
    app.put("FULL", b"full")
    assert expire_with_report(app, reply_to) == [why]
    refused = {name: app.show(name)["refused"] for name in ("CLOSED", "FULL")}
    assert refused == {name: int(name == reply_to) for name in refused}


def test_report_takes_no_more_room_than_puts_leave(app: Client) -> None:
    manager = app.manager
    app.ask(m.QueueCreate, "REPLIES")
    envelope = {records.REPLY_TO: "REPLIES"}
    app.put("Q", b"1", expiry_ms=1_000, flags=records.FLAG_REPORT_EXPIRY, envelope=envelope)
    manager.store.disk_free_bytes = 0
    run_due_work(manager, 1_000)
    manager.store.disk_free_bytes = 1 << 40
    assert counts(app) == (0, 0, 1, 0)
    assert (app.bodies("REPLIES"), app.show("REPLIES")["refused"]) == ([], 1)


def test_reports_for_a_peer_fill_only_a_share_of_the_store() -> None:
    """The limits of a queue do not apply to reports of messages that expired on it."""
    app = Manager(store={"map_bytes": "1 MiB"}).connect("app")
    app.ask(m.QueueCreate, "Q", {"depth_max": 100})
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    app.ask(m.QueueCreate, "R@NYC")
    envelope, flags = {records.REPLY_TO: "R@NYC"}, records.FLAG_REPORT_EXPIRY
    for _ in range(10):
        app.put("Q", *[b"1"] * 100, expiry_ms=1_000, flags=flags, envelope=envelope)
        run_due_work(app.manager, 1_000)
    assert counts(app) == (0, 0, 1_000, 0)
    assert 0.9 < app.show("@NYC")["bytes"] / (64 * 1024) < 1.1
    assert {x["why"] for x in events(app) if x["event"] == "report has no place"} == {
        "QUEUE_BYTES_FULL"
    }
    app.put("R@NYC", b"no report")


def test_report_makes_room_where_a_put_would(app: Client) -> None:
    app.ask(m.QueueCreate, "REPLIES", {"depth_max": 1, "overflow": "discard-oldest"})
    app.put("REPLIES", b"old")
    assert expire_with_report(app, "REPLIES") == []
    assert app.bodies("REPLIES") == [b""]


@pytest.mark.parametrize("envelope", [b"", b"\xc1", b"\x80", b"\x93\x01", bytes(20)])
def test_report_with_any_envelope_fails_no_turn(app: Client, envelope: bytes) -> None:
    whole = bytearray(record(b"", expiry_ms=1_000, flags=records.FLAG_REPORT_EXPIRY))
    head = records.HEAD_BYTES
    whole[head:head] = envelope
    struct.pack_into(">H", whole, head - 6, len(envelope))  # The length of the body comes next.
    struct.pack_into(">I", whole, 0, crc32(bytes(whole[records.SUMMED_AT :])))
    assert not app.put_records("Q", bytes(whole))
    run_due_work(app.manager, 1_000)
    assert counts(app) == (0, 0, 1, 0)


def test_rule_diverts_to_the_dead_letters_where_it_expires_no_more_G12(
    store: AnyStore, app: Client
) -> None:
    app.ask(m.QueueAlter, "Q", {"expiry_action": "dead-letter"})
    app.put("Q", b"1", bytes(9_000), expiry_ms=1_000)
    run_due_work(app.manager, 1_000)
    assert (app.show("Q")["depth"], app.show("Q")["dead"]) == (0, 2)
    app.manager.restart()
    app = app.manager.connect()
    run_due_work(app.manager, YEAR_MS)
    assert [len(x) for x in app.bodies(DEAD_LETTERS)] == [1, 9_000]
    (found, _) = app.browse(DEAD_LETTERS)
    assert not found.state & m.STATE_EXPIRES


def test_message_without_space_among_the_dead_letters_waits_G12(app: Client) -> None:
    """The message is not delivered during the wait."""
    app.ask(m.QueueAlter, "Q", {"expiry_action": "dead-letter"})
    app.ask(m.QueueAlter, DEAD_LETTERS, {"depth_max": 1})
    app.put("Q", b"1", b"2", expiry_ms=1_000)
    run_due_work(app.manager, 1_000)
    assert (app.show("Q")["depth"], app.bodies("Q")) == (1, [])
    app.ask(m.QueueAlter, DEAD_LETTERS, {"depth_max": 2})
    run_due_work(app.manager, 10_000)
    assert app.bodies(DEAD_LETTERS) == [b"1", b"2"]


@pytest.mark.parametrize("years", [50, -50])
def test_wall_clock_that_jumps_expires_nothing_and_stalls_nothing(
    store: AnyStore, app: Client, years: int
) -> None:
    """As in a running daemon, due times follow the store's own clock."""
    app.put("Q", b"expires", expiry_ms=60_000)
    app.put("Q", b"waits", delay_ms=60_000)
    app.manager.wall_us += years * YEAR_MS * 1_000
    run_due_work(app.manager, 59_999)
    assert counts(app) == (1, 1, 0, 0)
    run_due_work(app.manager, 1)
    assert counts(app) == (1, 0, 1, 0)
    assert app.bodies("Q") == [b"waits"]


@pytest.mark.parametrize(
    ("away_ms", "counted_ms"),
    [(50 * YEAR_MS, 7 * 24 * 3_600_000), (-50 * YEAR_MS, 0), (30_000, 30_000)],
)
def test_time_away_counts_within_bounds(
    store: AnyStore, app: Client, away_ms: int, counted_ms: int
) -> None:
    """Time by the wall clock counts across a restart, up to downtime_max_ms."""
    limit_ms = app.manager.config.queue_manager.downtime_max_ms
    counted_ms = min(counted_ms, limit_ms) if away_ms < YEAR_MS else limit_ms
    lasts_ms = counted_ms + 1_000
    app.put("Q", b"expires", expiry_ms=lasts_ms)
    app.put("Q", b"waits", delay_ms=lasts_ms)
    app.manager.rest()
    app.manager.wall_us += away_ms * 1_000
    app.manager.crash()
    app = app.manager.connect()
    run_due_work(app.manager, 999)
    assert counts(app) == (1, 1, 0, 0)
    run_due_work(app.manager, 1)
    assert counts(app) == (1, 0, 1, 0)


# -- delay


def test_delayed_message_is_available_on_time_in_its_old_position(
    store: AnyStore, app: Client
) -> None:
    app.put("Q", b"late", delay_ms=1_000)
    app.put("Q", b"now")
    assert app.bodies("Q") == [b"now"]
    assert [x.body for x in app.get("Q", 9, lease_ms=100)] == [b"now"]
    run_due_work(app.manager, 999)
    assert app.bodies("Q") == [b"now"]
    assert counts(app) == (1, 1, 0, 0)
    run_due_work(app.manager, 1)
    assert [x.body for x in app.get("Q", 9)] == [b"late", b"now"]


def test_delay_survives_a_restart(store: AnyStore, app: Client) -> None:
    app.put("Q", bytes(9_000), delay_ms=10_000, correlation_id=b"c")
    app.manager.restart(4_000)
    app = app.manager.connect()
    run_due_work(app.manager, 5_999)
    assert counts(app) == (0, 1, 0, 0)
    app.manager.crash()
    app = app.manager.connect()
    run_due_work(app.manager, 1)
    assert counts(app) == (1, 0, 0, 0)
    assert len(app.browse("Q")) == 1


@pytest.mark.parametrize("expiry_ms", [500, 1_000, 1_500])
def test_delay_and_expiry_of_one_message(store: AnyStore, app: Client, expiry_ms: int) -> None:
    """A message that expires during its delay is never delivered."""
    app.put("Q", b"1", delay_ms=1_000, expiry_ms=expiry_ms)
    first_ms = min(expiry_ms, 1_000) - 1
    run_due_work(app.manager, first_ms)
    assert counts(app) == (0, 1, 0, 0)
    run_due_work(app.manager, 1_000 - first_ms)
    assert counts(app) == ((1, 0, 0, 0) if expiry_ms > 1_000 else (0, 0, 1, 0))
    run_due_work(app.manager, 1_000)
    assert counts(app) == (0, 0, 1, 0)
    assert scheduled(app.manager) == 0


def test_delayed_ones_are_browsed_by_themselves(app: Client) -> None:
    app.put("Q", b"later", delay_ms=1_000)
    app.put("Q", b"now")
    value = app.ask(m.Browse, "Q", None, 100, 1 << 20, "", b"", b"", b"", True)
    assert len(value["items"]) == 1
    assert value["items"][0].find(b"later") > 0


def test_delayed_message_is_on_the_queue_for_duplicates_and_limits_A12_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"depth_max": 1})
    app.put("Q", b"1", uid=("O", 1), delay_ms=1_000)
    (refused,) = app.put_records("Q", record(b"1", uid=("O", 1)))
    assert refused.code is ErrorCode.DUPLICATE_MESSAGE
    (refused,) = app.put_records("Q", record(b"2", uid=("O", 2)))
    assert refused.code is ErrorCode.QUEUE_FULL


def test_queue_with_delayed_messages_only_is_not_empty(app: Client) -> None:
    app.put("Q", b"1", delay_ms=1_000)
    assert app.code_of(m.QueueDelete, "Q") == ErrorCode.QUEUE_NOT_EMPTY
    assert app.ask(m.QueueDelete, "Q", True) == {"messages": 1}


def test_rows_of_a_deleted_queue_vanish_when_they_are_due(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", delay_ms=1_000, expiry_ms=5_000)
    app.put("Q", b"2", expiry_ms=1_000)
    app.ask(m.QueueDelete, "Q", True)
    app.manager.rest()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"3")
    run_due_work(app.manager, 1_000)
    assert scheduled(app.manager) == 0
    assert app.bodies("Q") == [b"3"]


# -- non-persistent messages


def test_lost_message_is_unavailable_at_once_and_swept_later(store: AnyStore, app: Client) -> None:
    app.put("Q", b"v1", bytes(9_000), flags=VOLATILE, correlation_id=b"c")
    app.put("Q", b"stays", correlation_id=b"c")
    app.put("Q", b"v2", flags=VOLATILE, delay_ms=1_000)
    app.put("Q", b"v3", flags=VOLATILE, expiry_ms=1_000)
    assert counts(app) == (4, 1, 0, 0)
    app.manager.crash()
    app = app.manager.connect()
    app.manager.turn()
    audit(app.manager)
    assert app.bodies("Q") == [b"stays"]
    assert counts(app) == (1, 0, 0, 4)
    app.manager.rest()
    assert [x.body for x in app.get("Q", 9)] == [b"stays"]
    run_due_work(app.manager, 1_000)
    assert counts(app) == (1, 0, 0, 4)
    assert scheduled(app.manager) == 0


def test_due_message_that_is_lost_stays_lost(app: Client) -> None:
    """The message neither becomes available nor counts as expired."""
    app.put("Q", b"v2", flags=VOLATILE, delay_ms=1_000)
    app.put("Q", b"v3", flags=VOLATILE, expiry_ms=1_000)
    manager = app.manager
    manager.crash(2_000)
    manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app = manager.connect()
    manager.turn()
    audit(manager)
    assert counts(app) == (0, 0, 0, 2)


def test_sweep_goes_on_over_a_second_crash(store: AnyStore, app: Client) -> None:
    """Messages lost in the first start stay lost, even while their rows still exist."""
    app.put("Q", *[b"v"] * 1_200, flags=VOLATILE)
    app.put("Q", b"stays")
    manager = app.manager
    manager.crash()
    manager.turn()
    manager.crash()
    app = manager.connect()
    audit(manager)
    assert app.bodies("Q")[:2] == [b"stays"]
    assert counts(app)[0] == 1
    assert [x.body for x in app.get("Q", 9)] == [b"stays"]
    manager.rest()
    assert len(manager.scan(keys.of_queue(keys.SPACE_MESSAGE, manager.queue("Q").id))) == 1


def test_duplicate_of_a_lost_one_is_accepted_A11(store: AnyStore, app: Client) -> None:
    app.put("Q", b"v", flags=VOLATILE, uid=("O", 1))
    manager = app.manager
    manager.crash()
    manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app = manager.connect()
    app.put("Q", b"again", uid=("O", 1))
    manager.crash()
    app = manager.connect()
    assert app.bodies("Q") == [b"again"]
    manager.rest()
    assert app.bodies("Q") == [b"again"]


def test_leased_ones_are_lost_too_and_so_are_those_on_their_way(
    store: AnyStore, app: Client
) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"v", flags=VOLATILE)
    app.put("F@NYC", b"stays")
    app.put("Q", b"v", flags=VOLATILE)
    app.get("Q")
    app.manager.restart()
    app = app.manager.connect()
    assert app.bodies("@NYC") == [b"stays"]
    assert app.bodies("Q") == []
    app.manager.rest()
    assert counts(app, "@NYC") == (1, 0, 0, 1)


def test_long_ones_are_swept_in_bounded_slices(manager: Manager, app: Client) -> None:
    for _ in range(12):
        app.put("Q", bytes(1_000_000), flags=VOLATILE)  # Each message has 250 rows.
    manager.crash()
    turns = 0
    while manager.turns.has_work:
        manager.turn()
        turns += 1
        assert manager.turns.broker.context.rows < 6 * SLICE_ROWS
    assert turns >= 2
    assert manager.scan(keys.SPACE_BODY) == []


def test_purge_and_what_was_lost_with_a_restart(manager: Manager, app: Client) -> None:
    """Each message is counted once."""
    app.put("Q", *[b"v"] * 1_200, flags=VOLATILE)
    app.put("Q", b"1")
    manager.crash()
    app = manager.connect()
    assert app.ask(m.QueuePurge, "Q") == {"messages": 1}
    manager.rest()
    assert counts(app) == (0, 0, 0, 1_200)


def test_purge_takes_what_waits_for_its_time_and_leaves_no_row(
    store: AnyStore, app: Client
) -> None:
    app.put("Q", *[b"x"] * 700, expiry_ms=1_000)
    app.put("Q", *[b"x"] * 700, delay_ms=1_000, correlation_id=b"c")
    assert app.ask(m.QueuePurge, "Q") == {"messages": 1_400}
    assert counts(app) == (0, 0, 0, 0)
    assert scheduled(app.manager) == 0


# -- remembered UIDs


def test_uid_of_what_was_consumed_is_refused_for_a_while_D1(store: AnyStore, app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"dedup_retention_ms": 10_000})
    app.put("Q", b"1", uid=("O", 1))
    app.put("Q", b"2", uid=("O", 2), correlation_id=b"c")
    assert app.ack(*app.get("Q", 9)) == []
    app.manager.restart(4_000)
    app = app.manager.connect()
    run_due_work(app.manager, 5_999)
    for uid in (("O", 1), ("O", 2)):
        (refused,) = app.put_records("Q", record(b"x", uid=uid))
        assert refused.code is ErrorCode.DUPLICATE_MESSAGE
    assert app.bodies("Q") == []
    run_due_work(app.manager, 1)
    app.put("Q", b"again", uid=("O", 1))
    assert app.bodies("Q") == [b"again"]
    assert scheduled(app.manager) == 0


def test_expiring_and_delayed_uids_are_remembered_too_D1(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"dedup_retention_ms": 10_000})
    app.put("Q", b"1", uid=("O", 1), expiry_ms=1_000)
    app.put("Q", b"2", uid=("O", 2), delay_ms=10)
    run_due_work(app.manager, 10)
    assert app.ack(*app.get("Q", 9)) == []
    run_due_work(app.manager, 2_000)
    for number in (1, 2):
        assert len(app.put_records("Q", record(b"x", uid=("O", number)))) == 1


# -- all kinds of due work together


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 2_000), st.just(0), st.just(False)),
        st.tuples(st.just("get"), st.integers(1, 3), st.just(0), st.booleans()),
        st.tuples(st.just("crash"), st.integers(0, 1_000), st.just(0), st.booleans()),
    ),
    max_size=25,
)


@given(steps)
def test_each_message_is_available_only_within_its_time(steps: list[Any]) -> None:
    """The test compares the queue with a list of messages, second by second."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    there: list[tuple[bytes, int, int, bool]] = []  # body, due time, expiry time, volatile
    for number, (step, one, two, flag) in enumerate(steps):
        if step == "put":
            body, now_ms = b"%d" % number, manager.now().ms
            delay_ms, expiry_ms = one * 700, two * 900
            app.put(
                "Q", body, delay_ms=delay_ms, expiry_ms=expiry_ms, flags=VOLATILE if flag else 0
            )
            expires_ms = now_ms + expiry_ms if expiry_ms else YEAR_MS * 100
            there.append((body, now_ms + delay_ms, expires_ms, flag))
        elif step == "wait":
            run_due_work(manager, one)
        elif step == "get":
            found = app.get("Q", one)
            if flag and found:
                assert app.ack(*found) == []
                gone = {x.body for x in found}
                there = [x for x in there if x[0] not in gone]
            elif found:
                app.release(*found)
        else:
            (manager.crash if flag else manager.restart)(one)
            app = manager.connect()
            run_due_work(manager)
            there = [x for x in there if not x[3]]
        now_ms = manager.now().ms
        assert app.bodies("Q") == [x[0] for x in there if x[1] <= now_ms < x[2]]
        audit(manager)
