"""Tests that messages return to their queue with a count, perhaps after a delay, or not at all."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.returns.returns import STUCK_MS
from tests.group_player import GroupPlayer
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, record
from tests.qmgrd.core.unit_of_work import UnitOfWork, bodies, note_of, settle

DEAD = "SYSTEM.DEAD.LETTERS"


def alter(app: Client, **changes: object) -> None:
    app.ask(m.QueueAlter, "Q", changes)


def back_out(app: Client, count: int = 1) -> None:
    """Gets a message in a unit and backs out the unit, *count* times."""
    for _ in range(count):
        unit = UnitOfWork(app)
        assert len(unit.get("Q")) == 1
        unit.backout()


def failed(app: Client, queue: str = "Q") -> list[tuple[int, int]]:
    return [(x.delivered, x.failed) for x in app.browse(queue)]


# -- G21


def test_backouts_are_counted_and_browses_are_not_G21(store: AnyStore, app: Client) -> None:
    app.put("Q", b"x")
    for count in range(1, 4):
        back_out(app)
        assert failed(app) == failed(app) == [(count, count)]
    app.manager.restart()
    assert failed(app.manager.connect()) == [(3, 3)]


def test_crash_of_the_queue_manager_raises_no_count_G21(store: AnyStore, app: Client) -> None:
    app.put("Q", b"x")
    back_out(app)
    for _ in range(3):
        again = app.manager.connect()
        UnitOfWork(again).get("Q")
        app.manager.crash()
    assert failed(app.manager.connect()) == [(1, 1)]


def test_count_stops_at_the_most_that_an_entry_holds(app: Client) -> None:
    app.put("Q", b"x")
    (key, value), *_ = app.manager.scan(keys.SPACE_MESSAGE)
    tx = app.manager.store.begin()
    entry = entries.decode(value)._replace(delivered=entries.COUNT_MAX, failed=entries.COUNT_MAX)
    tx.put(key, entries.encode(entry))
    app.manager.store.commit()
    back_out(app)
    assert failed(app) == [(entries.COUNT_MAX, entries.COUNT_MAX)]


# -- G22


@pytest.mark.parametrize("threshold", [1, 3])
def test_message_leaves_at_the_threshold_and_not_before_G22(
    store: AnyStore, app: Client, threshold: int
) -> None:
    app.ask(m.QueueCreate, "BACKOUT")
    alter(app, backout_threshold=threshold, backout_queue="BACKOUT")
    app.put("Q", b"x")
    back_out(app, threshold - 1)
    assert failed(app) == ([(threshold - 1,) * 2] if threshold > 1 else [(0, 0)])
    back_out(app)
    assert failed(app) == []
    app.manager.crash()
    again = app.manager.connect()
    (dead,) = again.get("BACKOUT")
    note = note_of(dead)
    assert note["code"] == ErrorCode.BACKOUT_THRESHOLD_REACHED
    assert note["failed"] == note["delivered"] == len(note["attempts"]) == threshold


def test_threshold_of_zero_is_never_reached_G22(app: Client) -> None:
    alter(app, backout_threshold=0)  # Failures do not count towards the delivery limit.
    app.put("Q", b"x")
    back_out(app, 30)
    assert failed(app) == [(30, 30)]


def test_threshold_that_is_lowered_holds_for_what_failed_before_G22(app: Client) -> None:
    app.put("Q", b"x")
    back_out(app, 5)
    alter(app, backout_threshold=2)
    back_out(app)
    assert failed(app) == []
    assert app.show(DEAD)["depth"] == 1


@pytest.mark.parametrize("count", [1, 2])
def test_deliveries_have_a_limit_of_their_own_G22(app: Client, count: int) -> None:
    """A return counts as a delivery but not as a failure. An unread message counts as neither."""
    alter(app, delivery_limit=count, backout_threshold=1)
    app.put("Q", b"x")
    for _ in range(5):
        settle(app, m.UNREAD, *app.get("Q"))
    for number in range(count):
        assert failed(app) == [(number, 0)]
        settle(app, m.RETURN, *app.get("Q"))
    assert failed(app) == []
    (dead,) = app.get(DEAD)
    note = note_of(dead)
    assert note["code"] == ErrorCode.DELIVERY_LIMIT_REACHED
    assert (note["delivered"], note["failed"]) == (count, 0)
    assert "attempts" not in note


def test_members_after_a_failing_one_keep_their_limits_G22() -> None:
    """Otherwise, frequent failures of one message would make the whole group dead letters."""
    player = GroupPlayer()
    player.operator.ask(m.QueueAlter, "Q", {"delivery_limit": 4})
    player("put A1 A2!")
    for _ in range(3):
        player("get count=2")
        player("return A1")
    player("get count=2")
    assert failed(player.operator) == [(3, 0), (1, 0)]
    player("ack A1")
    player("return A2")
    player("get")
    player("return A2")
    assert player("groups").startswith("A complete: 1 stored")
    player("get")
    player("return A2")
    assert player("dead") == "A2"


def test_message_that_kills_its_consumers_becomes_a_dead_letter_by_default(app: Client) -> None:
    app.put("Q", b"poison", b"healthy")
    for _ in range(20):
        assert app.show(DEAD)["depth"] == 0
        worker = app.manager.connect("worker")
        worker.send(m.Consume(900, "Q", 10, 1 << 20, start_later=True))
        worker.answer(900)
        (poison, _) = worker.delivered()
        assert settle(worker, m.RENEW, poison) == []
        worker.hang_up()
        app.manager.rest()
    (dead,) = app.get(DEAD)
    assert dead.body == b"poison"
    assert note_of(dead)["code"] == ErrorCode.DELIVERY_LIMIT_REACHED
    assert [(x.body, x.delivered) for x in app.get("Q")] == [(b"healthy", 0)]


def test_lost_connections_reach_the_delivery_limit(app: Client) -> None:
    """A message that kills its consumer must not kill all consumers, one after another."""
    alter(app, delivery_limit=2)
    app.put("Q", b"x")
    for _ in range(2):
        worker = app.manager.connect("worker")
        assert worker.get("Q")
        worker.hang_up()
        app.manager.rest()
    assert failed(app) == []
    assert app.show(DEAD)["depth"] == 1


@pytest.mark.parametrize("why", ["none", "missing", "full", "inhibited", "itself"])
def test_backout_queue_that_takes_nothing_is_passed_by_G22(app: Client, why: str) -> None:
    name = {"none": "", "missing": "NOWHERE", "itself": "SELF"}.get(why, "BACKOUT")
    app.ask(m.QueueCreate, "BACKOUT", {"depth_max": 1})
    if why == "full":
        app.put("BACKOUT", b"there")
    if why == "inhibited":
        app.ask(m.QueueAlter, "BACKOUT", {"put_inhibit": True})
    if why == "itself":
        app.ask(m.QueueCreate, "SELF", {"alias_of": "Q"})
    alter(app, backout_threshold=1, backout_queue=name)
    app.put("Q", b"x")
    back_out(app)
    assert failed(app) == []
    (dead,) = app.get(DEAD)
    assert note_of(dead)["code"] == ErrorCode.BACKOUT_THRESHOLD_REACHED
    assert app.show("BACKOUT")["depth"] == (why == "full")


@pytest.mark.parametrize("why", ["full", "inhibited"])
def test_what_has_no_place_anywhere_stays_and_comes_back_G22(
    store: AnyStore, app: Client, why: str
) -> None:
    app.ask(m.QueueAlter, DEAD, {"depth_max": 1} if why == "full" else {"put_inhibit": True})
    if why == "full":
        app.manager.fill(DEAD, record(b"there"))
    alter(app, backout_threshold=1)
    app.put("Q", b"x", bytes(9_000))
    found = app.get("Q", 2)
    assert app.release(*found) == []
    audit(app.manager)
    assert app.show("Q")["delayed"] == 2
    events = b"".join(app.bodies("SYSTEM.EVENTS"))
    assert events.count(b"dead letter has no place") == 1
    assert b"BACKOUT_THRESHOLD_REACHED" in events
    app.manager.crash(STUCK_MS)
    app = app.manager.connect()
    app.ask(m.QueueAlter, DEAD, {"depth_max": 9, "put_inhibit": False})
    found = app.get("Q", 2)
    assert [x.failed for x in found] == [1, 1]
    assert app.release(*found) == []
    assert failed(app) == []
    assert [len(note_of(x)["attempts"]) for x in app.browse(DEAD) if note_of(x)] == [2, 2]


def test_dead_letter_that_fails_stays_where_it_is_G22(app: Client) -> None:
    app.ask(m.QueueAlter, DEAD, {"backout_threshold": 1})
    app.put("Q", b"x")
    settle(app, m.REJECT, *app.get("Q"), reason="first")
    (dead,) = app.get(DEAD)
    assert settle(app, m.REJECT, dead, reason="again") == []
    assert app.get(DEAD) == []
    app.manager.turn(STUCK_MS)
    (dead,) = app.get(DEAD)
    note = note_of(dead)
    assert (note["reason"], dead.failed) == ("first", 1)
    assert [attempt[2] for attempt in note["attempts"]] == ["first", "again"]
    assert app.release(dead) == []


# -- retries


def waited_ms(app: Client, most_ms: int) -> int:
    """Returns the time in ms until the next message is available."""
    start_ms = app.manager.now().ms
    while not app.show("Q")["ready"]:
        due_ms = app.manager.turns.broker.context.schedule.next_ms
        assert due_ms is not None
        app.manager.turn(max(due_ms - app.manager.now().ms, 0))
        assert app.manager.now().ms - start_ms <= most_ms
    return app.manager.now().ms - start_ms


def test_wait_grows_with_each_failure_up_to_the_most(app: Client) -> None:
    alter(app, retry_initial_ms=1_000, retry_factor=3, retry_max_ms=10_000, retry_jitter_percent=0)
    app.put("Q", b"x")
    waits = []
    for _ in range(5):
        app.release(*app.get("Q"))
        waits.append(waited_ms(app, 10_000))
    assert waits == [1_000, 3_000, 9_000, 10_000, 10_000]


def test_wait_of_the_greatest_factor_is_a_number_still(app: Client) -> None:
    alter(app, retry_initial_ms=1_000, retry_factor=100, retry_max_ms=2_000, retry_jitter_percent=0)
    app.put("Q", b"x")
    for _ in range(130):
        app.release(*app.get("Q"))
        assert waited_ms(app, 2_000) in (1_000, 2_000)


def test_jitter_is_bounded_and_repeatable(app: Client) -> None:
    """The share depends on message and attempt, so messages that fail together retry separately."""
    alter(app, retry_initial_ms=100_000, retry_factor=1, retry_jitter_percent=20)
    batch = [record(b"x", uid=("B", number)) for number in range(1, 41)]
    waits = []
    for _ in range(2):
        assert not app.put_records("Q", *batch)
        app.release(*app.get("Q", 40))
        now_ms = app.manager.now().ms
        due = [
            int.from_bytes(key[1:9], "big") - now_ms for key, _ in app.manager.scan(keys.SPACE_DUE)
        ]
        waits.append(sorted(due))
        app.manager.turn(100_000)
        app.ack(*app.get("Q", 40))
    assert waits[0] == waits[1]
    assert len(set(waits[0])) > 30
    assert 80_000 <= min(waits[0]) < 85_000
    assert 95_000 < max(waits[0]) <= 100_000


@pytest.mark.parametrize("again", ["crash", "restart"])
def test_wait_outlasts_a_restart_and_the_place_is_kept(
    store: AnyStore, app: Client, again: str
) -> None:
    alter(app, retry_initial_ms=60_000, retry_jitter_percent=0)
    app.put("Q", b"first", bytes(9_000))
    app.release(*app.get("Q", 2))
    app.put("Q", b"third")
    getattr(app.manager, again)(20_000)
    app = app.manager.connect()
    assert app.bodies("Q") == [b"third"]
    shown = app.show("Q")
    assert (shown["depth"], shown["delayed"]) == (1, 2)
    app.manager.turn(40_000)
    assert [x.body[:5] for x in app.get("Q", 9)] == [b"first", bytes(5), b"third"]
    assert failed(app) == [(1, 1), (1, 1), (0, 0)]


def test_wait_ends_with_the_life_of_a_message(app: Client) -> None:
    alter(app, retry_initial_ms=60_000, retry_jitter_percent=0)
    app.put("Q", b"x", expiry_ms=30_000)
    app.release(*app.get("Q"))
    app.manager.turn(30_000)
    shown = app.show("Q")
    assert (shown["delayed"], shown["expired"]) == (0, 1)


def test_end_of_a_lease_and_a_backout_wait_as_a_release_does(app: Client) -> None:
    alter(app, retry_initial_ms=5_000, retry_factor=1, retry_jitter_percent=0)
    app.put("Q", b"x")
    app.get("Q", lease_ms=1_000)
    app.manager.turn(1_000)
    assert waited_ms(app, 5_000) == 5_000
    back_out(app)
    assert waited_ms(app, 5_000) == 5_000


# -- notes


def test_history_keeps_the_first_attempt_and_the_last_nine(store: AnyStore, app: Client) -> None:
    alter(app, retry_initial_ms=1_000, retry_factor=1, retry_jitter_percent=0)
    app.put("Q", b"x")
    for number in range(15):
        (found,) = app.get("Q")
        settle(app, m.RELEASE, found, reason=f"r{number}", text="why")
        if number == 7:
            app.manager.crash()
            app = app.manager.connect("second")
        app.manager.turn(1_000)
    (found,) = app.browse("Q")
    attempts = note_of(found)["attempts"]
    assert [attempt[2] for attempt in attempts] == ["r0", *(f"r{n}" for n in range(6, 15))]
    assert attempts[0][1:] == [0, "r0", "why", "app"]
    assert attempts[-1][4] == "second"
    assert [attempt[0] for attempt in attempts] == sorted(attempt[0] for attempt in attempts)


@pytest.mark.parametrize("action", [m.RETURN, m.UNREAD])
@pytest.mark.parametrize("delay_ms", [0, 1_000])
def test_note_is_kept_by_what_does_not_fail(app: Client, action: int, delay_ms: int) -> None:
    app.put("Q", b"x")
    settle(app, m.RELEASE, *app.get("Q"), reason="once")
    settle(app, action, *app.get("Q"), delay_ms=delay_ms)
    app.manager.turn(1_000)
    (found,) = app.get("Q")
    assert [attempt[2] for attempt in note_of(found)["attempts"]] == ["once"]
    assert app.ack(found) == []


def test_backout_is_recorded_in_the_history(app: Client) -> None:
    app.put("Q", b"x")
    back_out(app)
    (found,) = app.browse("Q")
    ((_, code, _, _, client),) = note_of(found)["attempts"]
    assert (code, client) == (ErrorCode.UNIT_BACKED_OUT, "app")


def test_selecting_get_receives_a_returned_message(app: Client) -> None:
    app.put("Q", b"x", correlation_id=b"c")
    (found,) = app.get("Q")
    other = app.manager.connect("other")
    other.say(m.Get(900, "Q", 1, 60_000, 0, 1_000, "", b"c"))
    assert app.release(found) == []
    (again,) = other.delivered()
    assert bodies([again]) == [b"x"]
    assert isinstance(again, Delivery)
