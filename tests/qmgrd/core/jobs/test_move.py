"""Tests that moves and copies affect exactly the right messages, without loss or duplication."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.jobs.job import SLICE_ROWS
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from tests.group_player import GroupPlayer
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record

LONG = bytes(9_000)


@pytest.fixture
def app(manager: Manager) -> Client:
    client = manager.connect("app")
    for queue in ("Q", "OLD"):
        client.ask(m.QueueCreate, queue)
    return client


def fill(app: Client, count: int) -> None:
    for start in range(0, count, 1_000):
        app.put("Q", *(b"%d" % n for n in range(start, min(start + 1_000, count))))


def move(
    app: Client,
    target: str = "OLD",
    where: str = "",
    messages_max: int = 0,
    rate: int = 0,
    copy: bool = False,
) -> int:
    """Begins a move; returns the number of its job."""
    row = app.ask(m.QueueMove, "Q", target, where, messages_max, rate, copy, 0)
    job: int = row["job"]
    return job


def moved(app: Client, *options: Any, **named: Any) -> dict[str, Any]:
    """Runs a move to its end; returns the row of its job."""
    job = move(app, *options, **named)
    app.manager.rest()
    return show(app, job)


def show(app: Client, job: int) -> dict[str, Any]:
    row: dict[str, Any] = app.ask(m.JobShow, job)
    return row


def numbers(app: Client, queue: str) -> list[int]:
    return [int(body) for body in app.bodies(queue)]


def is_over(manager: Manager, job: int) -> bool:
    return manager.turns.broker.jobs.find(job).is_over


def test_all_go_in_their_order_with_what_belongs_to_them(store: AnyStore, app: Client) -> None:
    app.put("Q", b"first", LONG, b"last", correlation_id=b"c")
    before = app.browse("Q")
    row = moved(app)
    assert (row["state"], row["kind"], row["done"], row["examined"]) == ("done", "move", 3, 3)
    assert (row["queue"], row["target"], row["total"], row["skipped"]) == ("Q", "OLD", 3, 0)
    after = app.browse("OLD")
    assert [x.record for x in after] == [x.record for x in before]
    assert [x.put_us for x in after] == [x.put_us for x in before]
    assert app.show("Q")["moved"] == 3
    assert app.show("Q")["depth"] == app.show("Q")["bytes"] == 0
    found = app.ask(m.Browse, "OLD", None, 10, 1 << 20, "", b"c")
    assert len(found["items"]) == 3


def test_only_selected_messages_are_moved(app: Client) -> None:
    for priority in range(10):
        app.put("Q", b"%d" % priority, priority=priority)
    row = moved(app, where="priority BETWEEN 3 AND 5")
    assert (row["examined"], row["done"], row["where"]) == (10, 3, "priority BETWEEN 3 AND 5")
    assert numbers(app, "OLD") == [5, 4, 3]
    assert numbers(app, "Q") == [9, 8, 7, 6, 2, 1, 0]


def test_limit_of_messages_is_kept(app: Client) -> None:
    fill(app, 5)
    assert moved(app, messages_max=3)["done"] == 3
    assert numbers(app, "Q") == [3, 4]


def test_leased_message_stays(app: Client) -> None:
    fill(app, 4)
    held = app.get("Q", 2)
    row = moved(app)
    assert (row["done"], row["skipped"]) == (2, 2)
    app.release(*held)
    assert numbers(app, "Q") == [0, 1]


def test_later_message_stays(app: Client) -> None:
    fill(app, SLICE_ROWS + 100)
    move(app)
    app.put("Q", b"5000", priority=9)
    app.put("Q", b"5001", priority=0)
    app.manager.rest()
    assert numbers(app, "Q") == [5_000, 5_001]


def test_messages_are_consumed_at_once_where_they_arrive(app: Client) -> None:
    app.consume("OLD")
    fill(app, 3)
    moved(app)
    assert [x.body for x in app.delivered()] == [b"0", b"1", b"2"]


def test_restart_at_every_slice_loses_nothing_and_moves_nothing_twice(store: AnyStore) -> None:
    manager = Manager(store)
    app = manager.connect()
    for queue in ("Q", "OLD"):
        app.ask(m.QueueCreate, queue)
    fill(app, 2_300)
    job, slices = move(app), 0
    while not is_over(manager, job):
        manager.crash()
        assert len(manager.scan(keys.SPACE_MESSAGE)) == 2_300
        manager.turn()
        slices += 1
    app = manager.connect()
    assert slices >= 4
    assert numbers(app, "OLD") == list(range(2_300))
    row = show(app, job)
    assert (row["done"], row["examined"], app.show("Q")["depth"]) == (2_300, 2_300, 0)


def test_queue_that_is_full_is_waited_for(app: Client) -> None:
    app.ask(m.QueueAlter, "OLD", {"depth_max": 2})
    fill(app, 5)
    job = move(app)
    app.manager.rest()
    row = show(app, job)
    assert (row["state"], row["done"], row["ended_us"]) == ("waiting", 2, None)
    assert row["text"].startswith("queue OLD is full: 2 messages of at most 2, ")
    turn = app.ask(m.Status)["turn"]
    app.manager.turn(1_000)
    app.manager.rest()
    assert app.ask(m.Status)["turn"] == turn  # A waiting job must not write anything.
    app.ack(*app.get("OLD", 2))
    app.manager.turn(1_000)
    assert show(app, job)["done"] == 4
    app.ask(m.QueueAlter, "OLD", {"depth_max": 10})
    app.manager.turn(1_000)
    row = show(app, job)
    assert (row["state"], row["text"], row["done"], row["examined"]) == ("done", "", 5, 5)
    assert numbers(app, "OLD") == [2, 3, 4]


def test_full_queue_that_would_discard_loses_nothing_by_a_move(app: Client) -> None:
    app.ask(m.QueueAlter, "OLD", {"depth_max": 2, "overflow": "discard-oldest"})
    fill(app, 3)
    assert moved(app)["state"] == "waiting"
    assert (numbers(app, "Q"), numbers(app, "OLD")) == ([2], [0, 1])


def test_queue_that_takes_no_puts_is_waited_for_over_a_restart(app: Client) -> None:
    app.ask(m.QueueAlter, "OLD", {"put_inhibit": True})
    fill(app, 2)
    job = move(app)
    app.manager.rest()
    assert "OLD" in show(app, job)["text"]
    app.manager.crash()
    app = app.manager.connect()
    app.manager.rest()
    assert show(app, job)["state"] == "waiting"
    app.ask(m.QueueAlter, "OLD", {"put_inhibit": False})
    app.manager.turn(1_000)
    assert show(app, job)["state"] == "done"
    assert numbers(app, "OLD") == [0, 1]


def test_message_that_a_unit_of_work_is_about_to_put_is_waited_for(app: Client) -> None:
    app.put("Q", b"x", uid=("home", 7))
    other = app.manager.connect()
    other.ask(m.UnitBegin, 1)
    other.ask(m.UnitPut, 1, "OLD", [record(b"x", uid=("home", 7))])
    job = move(app)
    app.manager.rest()
    assert "unit of work" in show(app, job)["text"]
    other.ask(m.UnitBackout, 1)
    app.manager.turn(1_000)
    assert show(app, job)["done"] == 1


def test_message_too_long_for_the_target_stays(app: Client) -> None:
    app.ask(m.QueueAlter, "OLD", {"message_max_bytes": 1_024})
    app.put("Q", b"short", LONG)
    row = moved(app)
    assert (row["done"], row["stayed"]) == (1, 1)
    assert app.bodies("Q") == [LONG]


def test_message_lives_no_longer_than_the_target_lets_it(app: Client) -> None:
    app.ask(m.QueueAlter, "OLD", {"expiry_max_ms": 5_000})
    app.put("Q", b"x")
    moved(app)
    app.manager.turn(4_900)
    assert app.bodies("OLD") == [b"x"]
    app.manager.turn(200)
    assert app.bodies("OLD") == []


def test_expired_message_does_not_go(app: Client) -> None:
    app.put("Q", b"x", expiry_ms=1_000)
    app.put("Q", b"y", expiry_ms=90_000)
    app.manager.advance(1_001)
    row = moved(app)
    assert row["done"] == 1
    assert app.bodies("OLD") == [b"y"]


def test_existing_message_leaves_the_source_and_stays_single(app: Client) -> None:
    app.put("Q", b"x", uid=("home", 7))
    app.put("OLD", b"x", uid=("home", 7))
    assert moved(app)["done"] == 1
    assert (app.bodies("Q"), app.bodies("OLD")) == ([], [b"x"])


def test_rotten_message_is_set_aside(app: Client) -> None:
    app.put("Q", b"sound", b"rotten")
    *_, (key, value) = app.manager.scan(keys.SPACE_MESSAGE)
    tx = app.manager.store.begin()
    tx.put(key, value.replace(b"rotten", b"ratten"))
    app.manager.store.commit()
    assert moved(app)["done"] == 1
    assert app.show("Q")["damaged"] == 1


# -- onto a link


def test_move_to_a_remote_queue_waits_on_its_link(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "FLIGHTS@NYC")
    fill(app, 3)
    assert moved(app, "FLIGHTS@NYC")["done"] == 3
    assert app.show("@NYC")["depth"] == 3
    entries = app.browse("@NYC")
    assert [int(x.body) for x in entries] == [0, 1, 2]


# -- copies


def test_copy_leaves_all_and_keeps_uids(store: AnyStore, app: Client) -> None:
    app.put("Q", b"short", LONG)
    row = moved(app, copy=True)
    assert (row["kind"], row["done"]) == ("copy", 2)
    assert [x.record for x in app.browse("Q")] == [x.record for x in app.browse("OLD")]
    app.ack(*app.get("Q", 2))
    assert app.bodies("OLD") == [b"short", LONG]


def test_copied_message_is_skipped(app: Client) -> None:
    fill(app, 3)
    moved(app, copy=True, messages_max=2)
    row = moved(app, copy=True)
    assert (row["done"], row["skipped"]) == (1, 2)
    assert numbers(app, "OLD") == [0, 1, 2]
    assert app.show("OLD")["duplicates"] == 0


def test_copy_waits_for_room_too(app: Client) -> None:
    app.ask(m.QueueAlter, "OLD", {"depth_max": 1})
    fill(app, 2)
    assert moved(app, copy=True)["state"] == "waiting"
    assert (len(numbers(app, "Q")), len(numbers(app, "OLD"))) == (2, 1)


# -- a rate


def test_rate_is_kept_by_the_clock_and_no_turn_is_busy(app: Client) -> None:
    fill(app, 45)
    job = move(app, rate=20)
    app.manager.rest()
    assert show(app, job)["done"] == 2
    for _ in range(10):
        app.manager.turn(100)
        assert app.manager.rest() == 0
    assert show(app, job)["done"] == 22
    for _ in range(12):
        app.manager.turn(100)
    assert show(app, job)["state"] == "done"


def test_one_in_two_seconds_is_the_least(app: Client) -> None:
    fill(app, 3)
    job = move(app, rate=1)
    app.manager.rest()
    assert app.manager.turns.broker.next_timer_ms() is not None
    assert show(app, job)["done"] == 1
    app.manager.turn(999)
    assert show(app, job)["done"] == 1
    app.manager.turn(1)
    assert show(app, job)["done"] == 2


def test_late_move_catches_up_by_at_most_a_second(app: Client) -> None:
    fill(app, 100)
    job = move(app, rate=10)
    app.manager.rest()
    app.manager.turn(60_000)
    app.manager.rest()
    assert 2 <= show(app, job)["done"] <= 13


# -- refused moves


def test_queue_is_not_moved_onto_itself(app: Client) -> None:
    """Otherwise, each moved message would go to the end, and the move would never finish."""
    app.ask(m.QueueCreate, "SAME", {"alias_of": "Q"})
    for target in ("Q", "SAME"):
        assert app.code_of(m.QueueMove, "Q", target) is ErrorCode.VALUE_INVALID
    assert app.code_of(m.QueueMove, "SAME", "Q") is ErrorCode.VALUE_INVALID


def test_alias_that_leads_back_since_ends_the_move(app: Client) -> None:
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": "OLD"})
    app.ask(m.QueueAlter, "OLD", {"put_inhibit": True})
    fill(app, 1)
    job = move(app, "ALIAS")
    app.manager.rest()
    app.ask(m.QueueAlter, "ALIAS", {"alias_of": "Q"})
    app.manager.turn(1_000)
    row = show(app, job)
    assert (row["state"], row["text"]) == (
        "failed",
        "ALIAS now refers to queue Q itself: choose another target",
    )
    assert numbers(app, "Q") == [0]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (("NONE", "OLD"), ErrorCode.QUEUE_UNKNOWN),
        (("Q", "NONE"), ErrorCode.QUEUE_UNKNOWN),
        (("Q", "OLD", "priority <"), ErrorCode.SELECTOR_INVALID),
        (("Q", "", "", 0, 0, True), ErrorCode.VALUE_INVALID),
    ],
)
def test_move_that_cannot_be_is_refused(
    app: Client, fields: tuple[Any, ...], code: ErrorCode
) -> None:
    assert app.code_of(m.QueueMove, *fields) is code
    assert app.ask(m.JobList) == {"jobs": []}


def test_transmission_queue_is_neither_source_nor_target(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    for fields in (("@NYC", "Q"), ("Q", "@NYC")):
        assert app.code_of(m.QueueMove, *fields) is ErrorCode.QUEUE_IS_TRANSMISSION


@pytest.mark.parametrize("gone", ["Q", "OLD"])
def test_queue_that_is_deleted_meanwhile_ends_the_move(app: Client, gone: str) -> None:
    fill(app, 1_200)
    job = move(app)
    app.ask(m.QueueDelete, gone, True)
    app.manager.rest()
    row = show(app, job)
    assert row["state"] == "failed"
    assert gone in row["text"]


def test_note_moves_with_a_dead_letter(app: Client) -> None:
    app.put("Q", b"x")
    app.settle(m.REJECT, *app.get("Q"))
    app.ask(m.QueueMove, "SYSTEM.DEAD.LETTERS", "OLD", "", 0, 0, False, 0)
    app.manager.rest()
    (found,) = app.browse("OLD")
    assert notes.decode(found.tail)["queue"] == "Q"


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("why", ["leased", "delayed"])
def test_group_with_an_unmovable_member_stays(copy: bool, why: str) -> None:
    """Otherwise, the moved messages would wait for messages acknowledged on the old queue."""
    player = GroupPlayer()
    app = player.operator
    app.ask(m.QueueCreate, "OLD")
    player("put A1 A2~ A3 B1 m1" if why == "delayed" else "put A1 A2 A3 B1 m1")
    if why == "leased":
        player("get")
    row = moved(app, copy=copy)
    assert row["text"] == f"2 stayed: other members of its group are {why}"
    assert app.bodies("OLD") == [b"m1", b"B1"]
    if why == "leased":
        player("ack A1")
    else:
        player("pass 1000")
    assert moved(app, copy=copy)["text"] == ""
    (group, _) = app.ask(m.GroupList, "OLD")["groups"]
    due = 2 if why == "leased" else 1
    assert (group["next"], group["missing"], group["count"]) == (due, 0, 4 - due)


@pytest.mark.parametrize("copy", [False, True])
def test_group_goes_on_where_it_was(copy: bool) -> None:
    player = GroupPlayer()
    app = player.operator
    app.ask(m.QueueCreate, "OLD")
    player("put A1 A2 A3!")
    player("get count=1")
    player("ack A1")
    moved(app, copy=copy)
    (group,) = app.ask(m.GroupList, "OLD")["groups"]
    assert (group["state"], group["next"], group["count"]) == ("complete", 2, 2)
