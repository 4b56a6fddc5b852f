"""Tests that a group leaves its queue as a whole after a message failed too often (D10, E37)."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.jobs.group_end import LEASED_MS, NO_PLACE_MS
from qmgrd.core.jobs.job import SLICE_ROWS
from qmgrd.core.layout import keys
from qmgrd.core.returns.returns import STUCK_MS
from tests.group_player import GroupPlayer, group_id, member
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, Manager, record
from tests.qmgrd.core.jobs.test_due_work import events, run_due_work
from tests.qmgrd.core.unit_of_work import bodies, note_of, settle

A, B = group_id("A"), group_id("B")
DEAD = "SYSTEM.DEAD.LETTERS"
REJECTED, FAILED = ErrorCode.MESSAGE_REJECTED, ErrorCode.GROUP_FAILED


@pytest.fixture
def app(app: Client) -> Client:
    """A client of a manager whose queue Q has a backout queue."""
    app.ask(m.QueueCreate, "BACKOUT")
    app.ask(m.QueueAlter, "Q", {"backout_threshold": 2, "backout_queue": "BACKOUT"})
    return app


def put(app: Client, words: str) -> None:
    assert app.put_records("Q", *[member(word) for word in words.split()]) == []


def get(app: Client, word: str) -> Delivery:
    """Gets the next message of the group, whose body must be *word*."""
    name = word.rstrip("!")
    request = m.Get(app.next_id(), "Q", group_id=group_id(name[0]), number=int(name[1:]))
    app.send(request)
    app.manager.rest()
    (found,) = app.delivered()
    return found


def reject(app: Client, word: str) -> None:
    assert settle(app, m.REJECT, get(app, word)) == []
    app.manager.rest()


def show(app: Client, group: bytes = A) -> dict[str, Any]:
    value: dict[str, Any] = app.ask(m.GroupShow, "Q", group, 1)
    return value


def ended(app: Client, queue: str = "BACKOUT") -> list[tuple[bytes, int]]:
    """Returns the body and the code of each message on *queue*, in order of arrival."""
    found = sorted(app.browse(queue), key=lambda one: one.arrival)
    return [(one.body, note_of(one)["code"]) for one in found]


def test_group_without_a_target_queue_is_not_parked(app: Client) -> None:
    """A rejected dead letter stays on its queue, so its group must not be parked."""
    put(app, "A1 A2!")
    app.ask(m.QueueAlter, "Q", {"backout_queue": ""})
    reject(app, "A1")
    held = app.get(DEAD)
    assert settle(app, m.REJECT, *held) == []
    assert app.ask(m.GroupShow, DEAD, A, 1)["state"] == "complete"
    app.manager.turn(STUCK_MS)
    app.manager.rest()
    assert bodies(app.get(DEAD, 9)) == [b"A1", b"A2"]
    audit(app.manager)


def test_consumed_members_do_not_count_as_missing(app: Client) -> None:
    """Two messages were consumed before an earlier one failed. The rest counts as complete."""
    put(app, "A1 A2 A3 A4 A5!")
    assert settle(app, m.ACK, get(app, "A2"), get(app, "A4")) == []
    reject(app, "A1")
    assert [body for body, _ in ended(app)] == [b"A1", b"A3", b"A5"]
    row = app.ask(m.GroupShow, "BACKOUT", A, 1)
    assert (row["state"], row["missing"], row["last"]) == ("complete", 0, 5)
    app.send(m.Get(app.next_id(), "BACKOUT", 9, bytes_max=1 << 30, order=m.LOGICAL, reader=1))
    app.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A1", b"A3", b"A5"]
    audit(app.manager)


def jobs(app: Client) -> list[dict[str, Any]]:
    return [row for row in app.ask(m.JobList)["jobs"] if row["kind"] == "group"]


def test_poison_member_is_not_moved_alone_and_others_go_on_D10_E37(
    store: AnyStore, app: Client
) -> None:
    put(app, "A1 A2 B1 m1")
    for _ in range(2):
        app.release(get(app, "A1"))
    assert app.bodies("BACKOUT") == app.bodies(DEAD) == []
    audit(app.manager)
    app.manager.crash()
    app = app.manager.connect()
    row = show(app)
    code = ErrorCode.BACKOUT_THRESHOLD_REACHED
    assert (row["state"], row["parked_number"], row["parked_code"]) == ("parked", 1, code)
    assert row["members"][0]["failed"] == 2
    assert bodies(app.get("Q", 9)) == [b"B1", b"m1"], "no member of A is delivered"


def test_whole_group_goes_in_the_order_of_its_numbers_D10_E37(store: AnyStore, app: Client) -> None:
    """The messages are in order of neither priority nor arrival. Each note states the reason."""
    put(app, "A4!@9 A2 A1 B1")
    reject(app, "A2")
    app.manager.crash()
    app = app.manager.connect()
    assert ended(app) == []
    put(app, "A3@0")
    app.manager.rest()
    assert ended(app) == [(b"A1", FAILED), (b"A2", REJECTED), (b"A3", FAILED), (b"A4", FAILED)]
    assert app.bodies("Q") == [b"B1"]
    assert app.show("Q")["dead"] == 4
    assert app.code_of(m.GroupShow, "Q", A, 1) == ErrorCode.GROUP_UNKNOWN
    assert [row["state"] for row in jobs(app)] == ["done"]
    assert jobs(app)[0]["done"] == 4


def test_first_failure_is_named_and_reported_once(app: Client) -> None:
    put(app, "A1 A2 A3!")
    held = [get(app, word) for word in ("A1", "A2", "A3")]
    assert settle(app, m.REJECT, *held[1:]) == []
    assert settle(app, m.REJECT, held[0]) == []
    run_due_work(app.manager, LEASED_MS)
    assert ended(app) == [(b"A1", FAILED), (b"A2", REJECTED), (b"A3", FAILED)]
    assert [one["event"] for one in events(app)].count("group parked") == 1


def test_group_is_one_on_the_queue_that_it_went_to(app: Client) -> None:
    """The group can be read in order from the backout queue, or returned to its original queue."""
    put(app, "A1 A3! A2")
    reject(app, "A1")
    row: dict[str, Any] = app.ask(m.GroupShow, "BACKOUT", A, 1)
    assert (row["state"], row["count"], row["last"]) == ("complete", 3, 3)


def test_what_left_before_is_not_waited_for(app: Client) -> None:
    put(app, "A1 A2 A3!")
    app.ack(get(app, "A1"))
    reject(app, "A3")
    assert ended(app) == [(b"A2", FAILED), (b"A3", REJECTED)]


def test_delayed_members_go_along(app: Client) -> None:
    put(app, "A1 A2~ A3!")
    reject(app, "A1")
    assert [body for body, _ in ended(app)] == [b"A1", b"A2", b"A3"]
    assert app.show("Q")["delayed"] == 0


def test_closed_group_leaves_as_it_is_D10(app: Client) -> None:
    put(app, "A1 A2 A5")
    reject(app, "A2")
    assert ended(app) == []
    app.ask(m.GroupAlter, "Q", A, "close")
    app.manager.rest()
    assert [body for body, _ in ended(app)] == [b"A1", b"A2", b"A5"]
    row = show(app)
    assert (row["state"], row["count"], row["closed"]) == ("gap", 0, True)
    assert [one.code for one in app.put_records("Q", member("A6"))] == [ErrorCode.GROUP_ENDED]


def test_endless_group_waits_for_an_operator(app: Client) -> None:
    put(app, "A1")
    reject(app, "A1")
    put(app, "A2 A3")
    run_due_work(app.manager, 1_000_000)
    assert ended(app) == []
    row = show(app)
    assert (row["state"], row["count"], row["waiting_for"]) == (
        "parked",
        3,
        "an operator: number 1 failed",
    )
    app.ask(m.GroupAlter, "Q", A, "resume")
    assert bodies(app.get("Q", 9)) == [b"A1", b"A2", b"A3"]


def test_group_waits_for_leased_members(app: Client) -> None:
    put(app, "A1 A2 A3!")
    held = get(app, "A2")
    reject(app, "A1")
    assert ended(app) == [(b"A1", REJECTED)]
    assert app.release(held) == []
    run_due_work(app.manager, LEASED_MS)
    assert [body for body, _ in ended(app)] == [b"A1", b"A2", b"A3"]


def test_what_is_acknowledged_meanwhile_is_not_dead(app: Client) -> None:
    put(app, "A1 A2!")
    held = get(app, "A2")
    reject(app, "A1")
    assert app.ack(held) == []
    run_due_work(app.manager, LEASED_MS)
    assert ended(app) == [(b"A1", REJECTED)]
    assert [row["state"] for row in jobs(app)] == ["done"]
    assert app.manager.scan(keys.group_row(app.manager.queue("Q").id, A)) == []


def test_without_a_backout_queue_it_becomes_dead_letters(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"backout_queue": ""})
    put(app, "A2! A1")
    reject(app, "A2")
    assert ended(app, DEAD) == [(b"A1", FAILED), (b"A2", REJECTED)]


def test_parked_group_waits_until_a_queue_accepts_its_members(app: Client) -> None:
    app.ask(m.QueueAlter, "BACKOUT", {"depth_max": 1})
    app.ask(m.QueueAlter, DEAD, {"depth_max": 1})
    put(app, "A1 A2 A3!")
    reject(app, "A1")
    # No other message is on the backout queue or the dead-letter queue.
    assert [body for body, _ in ended(app) + ended(app, DEAD)] == [b"A1"]
    (row,) = jobs(app)
    assert (row["state"], row["text"]) == ("waiting", "no queue accepts its members")
    app.ask(m.QueueAlter, "BACKOUT", {"depth_max": 10})
    run_due_work(app.manager, NO_PLACE_MS)
    assert [body for body, _ in ended(app)] == [b"A1", b"A2", b"A3"]


def test_resumed_group_stays_even_if_its_end_had_begun(app: Client) -> None:
    put(app, "A1 A2!")
    held = get(app, "A2")
    reject(app, "A1")
    assert app.ask(m.GroupAlter, "Q", A, "resume")["state"] != "parked"
    assert app.release(held) == []
    run_due_work(app.manager, 10 * LEASED_MS)
    assert app.bodies("Q") == [b"A2"]
    assert [row["state"] for row in jobs(app)] == ["done"]


@pytest.mark.parametrize("lost", [keys.SPACE_MESSAGE, keys.SPACE_GROUP])
def test_what_rotted_away_does_not_hold_it_up(lost: bytes) -> None:
    player = GroupPlayer()
    manager = player.manager
    player("put A1 A2")
    player("get")
    *_, (key, _) = manager.scan(keys.of_queue(lost, manager.queue("Q").id))
    manager.store.begin().delete(key)
    manager.store.commit()
    player("reject A1")
    player("alter A close")
    assert player("dead") == "A1"
    assert [row["state"] for row in jobs(player.operator)] == ["done"]


def test_replacement_of_a_damaged_member_fails_with_its_group() -> None:
    """The message was never delivered, so the failure is the group's (simulator, seed 20683)."""
    player = GroupPlayer()
    player("put A1 A2")
    player("get")
    player("reject A1")
    rows = player.manager.store.rows
    ((key, value),) = [row for row in player.manager.scan(b"\x10") if b"A1" in row[1]]
    rows[key] = value.replace(b"A1", b"AX")
    player("get count=2 physical")
    player("put A1")
    player("alter A close")
    assert ended(player.operator, DEAD) == [(b"A1", FAILED), (b"A2", FAILED)]


def test_queue_that_is_deleted_meanwhile_ends_it(app: Client) -> None:
    put(app, "A1 A2!")
    get(app, "A2")
    reject(app, "A1")
    app.ask(m.QueueDelete, "Q", True)
    run_due_work(app.manager, 10 * LEASED_MS)
    assert [row["state"] for row in jobs(app)] == ["done"]


def test_long_group_goes_in_slices_that_a_crash_cuts(store: AnyStore) -> None:
    manager = Manager(store, limits={"turn_rows": 500})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    count = SLICE_ROWS
    app.put_records(
        "Q",
        *[
            record(b"%d" % number, group=(A, number, number == count))
            for number in range(count, 0, -1)
        ],
    )
    app.send(m.Get(app.next_id(), "Q", group_id=A, number=1))
    manager.turn()
    (found,) = app.delivered()
    app.send(m.Settle(1_000, m.REJECT, found.queue_id, found.handle))
    for _ in range(3):
        manager.turn()
    left = manager.queue("Q").counters.depth
    assert 0 < left < count
    manager.crash()
    assert manager.rest() > 1
    app = manager.connect()
    dead = sorted(app.browse(DEAD), key=lambda one: one.arrival)
    assert bodies(dead) == [b"%d" % number for number in range(1, count + 1)]
    audit(manager)


def test_operators_hear_of_a_parked_group(app: Client) -> None:
    put(app, "A1")
    reject(app, "A1")
    (event,) = [one for one in events(app) if one["event"] == "group parked"]
    assert (event["queue"], event["group"]) == ("Q", "A")
