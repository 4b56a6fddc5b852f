"""Tests of the whole queue manager: which requests it accepts, and the limits of puts."""

import pytest

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode
from qmgr_protocol.frame import encode
from qmgrd.core.context.context import Dial
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record

# -- after the handshake


def test_hello_is_answered_with_name_store_and_boot(manager: Manager) -> None:
    app = manager.connect()
    welcome = app._wire.welcome
    assert welcome is not None
    assert (welcome.name, welcome.store_id, welcome.boot) == ("QM1", b"S" * 16, 1)


def test_request_of_an_unknown_operation_is_refused_and_the_connection_stays(app: Client) -> None:
    app.write(encode([199, 50, "from the future"]))
    app.manager.turn()
    (error,) = app.hear()
    assert (error.request_id, error.code, error.error_class) == (
        50,
        ErrorCode.OPERATION_UNKNOWN,
        ErrorClass.NEVER,
    )
    assert app.goaway is None
    assert app.ask(m.Status)


def test_unknown_operation_without_a_request_id_is_ignored(app: Client) -> None:
    app.write(encode([199]))
    app.write(encode([199, "text"]))
    assert app.say(m.Status(50))[0].request_id == 50


def test_message_after_a_violation_of_the_protocol_is_ignored(app: Client) -> None:
    manager = app.manager
    app.send(m.Put(9, 1, 0, "Q", [record(b"x")]), m.QueueCreate(50, "NEW"))
    manager.turn()
    assert app.goaway is not None
    assert manager.connect().code_of(m.QueueShow, "NEW") is ErrorCode.QUEUE_UNKNOWN


def test_message_before_one_that_broke_the_protocol_counts(manager: Manager, app: Client) -> None:
    app.send(m.QueueCreate(50, "NEW"), m.Put(9, 1, 0, "Q", [record(b"x")]))
    manager.turn()
    assert manager.connect().show("NEW")["depth"] == 0


@pytest.mark.parametrize("operation", [21, 27, 40])
def test_wrong_type_breaks_the_protocol_and_names_the_field(app: Client, operation: int) -> None:
    app.write(encode([operation, "one", 1, 1, "Q", []]))
    app.manager.turn()
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.FIELD_INVALID
    assert "'one' is not an integer" in app.goaway.text


@pytest.mark.parametrize("message", [m.Get(1, "Q", 1, -1), m.Get(1, "Q", 0), m.Get(1, "Q", True)])
def test_number_out_of_range_breaks_the_protocol(app: Client, message: m.Get) -> None:
    app.write(encode([23, *message]))
    app.manager.turn()
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.FIELD_INVALID


def test_closed_connection_is_removed_with_its_state(manager: Manager, app: Client) -> None:
    app.put("Q", b"1")
    app.consume("Q")
    app.say(m.Get(50, "Q", 1, 1_000))
    app.hang_up()
    manager.rest()
    broker = manager.turns.broker
    assert broker.sessions == {}
    assert not manager.queue("Q").waiting.rotation
    assert not manager.queue("Q").leases
    assert broker.streams._holders == {}
    assert broker.jobs.producers_in_use == {}
    assert manager.turns.intake._pending == {}


def test_event_of_a_removed_connection_or_link_is_ignored(manager: Manager) -> None:
    broker = manager.turns.broker
    dial = Dial("NONE", "h:1", 1)
    for event in (
        lambda _: broker.closed(99, "late"),
        lambda _: broker.dial_failed(dial, "late"),
        lambda _: broker.received(99, m.Status(1)),
        lambda _: broker.dialled(dial, 98, m.Welcome(1, "X", b"X" * 16, 1)),
    ):
        manager.turns.intake.event(0, event)
    closes = manager.turn().closes
    assert [(number, goaway.code) for number, goaway in closes] == [(98, ErrorCode.CANCELLED)]


# -- space

LEAST_BYTES = 64 << 20


def small(**store: object) -> tuple[Manager, Client]:
    manager = Manager(store={"map_bytes": "1 MiB", "free_disk_min_bytes": LEAST_BYTES} | store)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    return manager, app


def test_puts_stop_at_the_high_water_mark_and_gets_go_on() -> None:
    manager, app = small()
    app.put("Q", *[bytes(500)] * 20)
    manager.store.map_bytes = 10_000
    (refused,) = app.put_records("Q", record(b"x"))
    assert refused.code is ErrorCode.STORE_FULL
    assert "bytes of its map, and puts stop at 8000" in refused.text
    assert "puts stop at 8000" in app.ask(m.Status)["store_full"]
    assert app.ack(*app.get("Q", 20)) == []
    app.put("Q", b"again")
    assert app.ask(m.Status)["store_full"] == ""


def test_log_reports_that_puts_stop_and_resume() -> None:
    manager, app = small()
    app.put("Q", *[bytes(500)] * 20)

    def notes(*, is_full: bool) -> list[tuple[str, str]]:
        manager.store.map_bytes = 10_000 if is_full else 1 << 20
        return [(note.level, note.event) for note in manager.turn().notes]

    refused, accepted = ("error", "puts are refused: no room"), ("info", "puts are accepted again")
    assert notes(is_full=True) == [refused]
    assert notes(is_full=True) == []
    assert notes(is_full=False) == [accepted]
    assert [notes(is_full=is_full) for is_full in (False, True, False)] == [[], [], []]
    manager.advance(60_000)
    assert notes(is_full=True) == [refused]
    manager.advance(60_000)
    assert notes(is_full=True) == [refused]


def test_put_larger_than_the_space_is_refused_with_both_sizes() -> None:
    manager, app = small()
    manager.store.map_bytes = 1 << 20
    (refused,) = app.put_records("Q", record(bytes(600_000)))
    assert "the request may add 1200" in refused.text
    assert "bytes of the store are left before puts stop" in refused.text


def test_puts_stop_where_the_disk_is_nearly_full() -> None:
    manager, app = small()
    app.put("Q", b"1")
    manager.store.disk_free_bytes = LEAST_BYTES - 1
    (refused,) = app.put_records("Q", record(b"x"))
    assert refused.code is ErrorCode.STORE_FULL
    assert (
        f"the disk has {LEAST_BYTES - 1} bytes free and the store's file 0, and puts stop below "
        f"{LEAST_BYTES}" in refused.text
    )
    assert app.ack(*app.get("Q")) == []
    manager.store.disk_free_bytes = LEAST_BYTES
    app.put("Q", b"again")


def test_disk_reserve_is_kept_with_any_configuration() -> None:
    """An ack also needs pages. If the disk were completely full, the store could not be emptied."""
    manager, app = small(free_disk_min_bytes=0)
    app.put("Q", b"1")
    manager.store.disk_free_bytes = 0
    (refused,) = app.put_records("Q", record(b"x"))
    assert f"puts stop below {32 << 20}" in refused.text


def test_free_pages_of_the_store_need_no_disk_space() -> None:
    """LMDB's file never shrinks. Free pages in the file count as free space."""
    manager, app = small()
    manager.store.disk_free_bytes, manager.store.file_free_bytes = 24, LEAST_BYTES - 24
    app.put("Q", b"1")
    manager.store.file_free_bytes = 999
    (refused,) = app.put_records("Q", record(b"x"))
    assert (
        "the disk has 24 bytes free and the store's file 999, and puts stop below" in refused.text
    )


def test_pages_held_by_a_snapshot_count_as_used() -> None:
    manager, app = small()
    app.put("Q", b"1")
    manager.store.map_bytes = 100_000
    manager.store.held_bytes = 80_000
    (refused,) = app.put_records("Q", record(b"x"))
    assert refused.code is ErrorCode.STORE_FULL
    assert "(80000 for a snapshot), and puts stop at 80000" in refused.text
    assert app.ack(*app.get("Q")) == []
    manager.store.held_bytes = 0
    app.put("Q", b"again")


def test_refusal_for_want_of_space_may_be_tried_again() -> None:
    """The retry needs a new id, because the old id would get the same answer again."""
    manager, app = small()
    producer = app.producer(b"P" * 16)
    manager.store.disk_free_bytes = 0
    assert len(producer.put("Q", record(b"1"))) == 1
    producer.seen = 0  # The answer was lost.
    manager.store.disk_free_bytes = 1 << 40
    assert [x.code for x in producer.put_again(1, "Q", record(b"1"))] == [ErrorCode.STORE_FULL]
    assert producer.put("Q", record(b"1")) == []


def test_one_turn_does_not_put_far_beyond_the_mark() -> None:
    """The space is measured at the start of the turn. Rows that the turn adds also count."""
    manager, app = small()
    manager.store.map_bytes = 1 << 20
    producer = app.producer()
    for i in range(8):
        app.send(m.Put(producer.stream, 1 + 10 * i, 0, "Q", [record(bytes(30_000))] * 10))
    manager.rest()
    assert manager.store.space().used_bytes < manager.store.map_bytes
    codes = {code for x in app.hear() for _, code, _ in x.refused}
    assert codes == {ErrorCode.STORE_FULL}


# -- time


def test_deadlines_run_by_the_store_clock(store: AnyStore, app: Client) -> None:
    """A jump of the wall clock ends no lease and no wait."""
    manager = app.manager
    app.put("Q", b"1")
    app.get("Q", lease_ms=1_000)
    manager.wall_us += 10 * 365 * 86_400_000_000
    manager.turn(999)
    assert app.show("Q")["leased"] == 1
    manager.wall_us -= 20 * 365 * 86_400_000_000
    manager.turn(1)
    assert app.show("Q")["leased"] == 0


def test_store_clock_never_goes_back_over_a_restart(store: AnyStore, app: Client) -> None:
    manager = app.manager
    app.put("Q", b"1")
    last_ms = manager.now().ms
    manager.wall_us -= 86_400_000_000
    manager.crash()
    assert manager.now().ms >= last_ms
    manager.connect().put("Q", b"2")
    manager.crash(away_ms=5_000)
    assert manager.now().ms == last_ms + 5_000


def test_limits_come_from_the_configuration() -> None:
    config = Config()
    assert Manager().turns.broker.context.config.limits == config.limits


def test_turn_compiles_few_long_selectors(app: Client) -> None:
    """Each new selector is compiled, and counts as rows according to its compilation time."""
    requests = 100
    for number in range(requests):
        where = f"priority = {number} OR h IN ({','.join(map(str, range(250)))})"
        app.send(m.Browse(app.next_id(), "Q", None, 1, 1 << 20, where))
    app.manager.turn()
    assert 1 <= len(app.hear()) < requests // 2
    app.manager.rest()
