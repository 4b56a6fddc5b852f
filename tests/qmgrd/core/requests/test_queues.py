"""Tests of the answers to operators: lists, rows, status, deletions and snapshots."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.context import BeginSwitchOver, Note, TakeSnapshot
from qmgrd.core.requests import queues as admin
from tests.qmgrd.core.harness import Client, Manager, record

LINK = {"addresses": ["h:1"]}


def test_row_of_a_queue_has_attributes_counters_and_origins(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    app.ack(*app.get("Q"))
    app.get("Q")
    app.consume("Q", messages=0)
    row = app.show("Q")
    expected = {
        "queue": "Q",
        "kind": "local",
        "queue_id": 1,
        "depth_max": 100_000_000,
        "lease_ms": 30_000,
        "depth": 2,
        "ready": 1,
        "leased": 1,
        "puts": 3,
        "acked": 1,
        "fast": 3,
        "consumers": 1,
    }
    assert {key: row[key] for key in expected} == expected
    assert list(row["origins"]) == ["QM1"]


def test_origins_raised_in_the_same_turn_are_shown(app: Client) -> None:
    producer = app.producer()
    app.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x", uid=("A", 9))]))
    assert app.show("Q")["origins"] == {"A": 9}


def test_origins_are_paged(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "ORIGINS_SHOWN", 2)
    producer, names = app.producer(), ["A", "A.B", "A1", "B", "a"]
    batch = [record(b"x", uid=(name, 9)) for name in names]
    app.send(m.Put(producer.stream, 1, 0, "Q", batch))
    found, after, pages = [], "", 0
    while after is not None:
        row = app.ask(m.QueueShow, "Q", after)
        found += row["origins"]
        after, pages = row["origins_next"], pages + 1
    assert (found, pages) == (names, 3)
    assert app.ask(m.QueueShow, "Q", "B")["origins"] == {"a": 9}
    assert app.ask(m.QueueShow, "Q", "zz")["origins"] == {}


def test_list_of_queues_is_paged_by_name(app: Client) -> None:
    for name in ("D", "B", "C", "A"):
        app.ask(m.QueueCreate, name)
    found, after, pages = [], "", 0
    while after is not None:
        page = app.ask(m.QueueList, after, 2)
        found += [row["queue"] for row in page["queues"]]
        after, pages = page["next"], pages + 1
    assert (found, pages) == (["A", "B", "C", "D", "Q"], 3)


def test_alter_returns_old_and_new_values(app: Client) -> None:
    row = app.ask(m.QueueAlter, "Q", {"depth_max": 3, "lease_ms": 30_000, "put_inhibit": True})
    assert row.pop("changed") == {"depth_max": [100_000_000, 3], "put_inhibit": [False, True]}
    shown = app.show("Q")
    assert (shown.pop("origins"), shown.pop("origins_next")) == ({}, None)
    assert row == shown
    assert (row["given"], row["put_inhibit"]) == (["depth_max", "lease_ms"], True)


def test_alteration_is_logged_where_it_changes_something(app: Client) -> None:
    def notes(changes: dict[str, object]) -> list[Note]:
        app.say(m.QueueAlter(app.next_id(), "Q", changes))
        return app.manager.last.notes

    facts = {"queue": "Q", "changed": {"get_inhibit": [False, True]}}
    assert notes({"get_inhibit": True}) == [Note("info", "queue altered", facts)]
    assert notes({"get_inhibit": True}) == []


def test_unchanged_alteration_writes_nothing(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    turn = app.ask(m.Status)["turn"]
    assert app.ask(m.QueueAlter, "Q", {"put_inhibit": True, "get_inhibit": False})["changed"] == {}
    assert app.ask(m.QueueAlter, "Q")["changed"] == {}
    assert app.ask(m.Status)["turn"] == turn


def test_empty_queue_is_deleted_at_once(app: Client) -> None:
    assert app.ask(m.QueueDelete, "Q") == {"messages": 0}
    assert app.code_of(m.QueueShow, "Q") is ErrorCode.QUEUE_UNKNOWN


def test_queue_with_messages_is_deleted_only_with_them(app: Client) -> None:
    app.put("Q", b"1", b"2")
    with pytest.raises(RequestError, match="queue Q holds 2 messages") as caught:
        app.ask(m.QueueDelete, "Q")
    assert caught.value.code == ErrorCode.QUEUE_NOT_EMPTY
    assert app.ask(m.QueueDelete, "Q", True) == {"messages": 2}


def test_queue_whose_messages_are_all_leased_is_not_empty(app: Client) -> None:
    app.put("Q", b"1")
    app.get("Q")
    assert app.code_of(m.QueueDelete, "Q") is ErrorCode.QUEUE_NOT_EMPTY


def test_remote_queue_is_deleted_without_its_messages(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"1")
    assert app.ask(m.QueueDelete, "F@NYC") == {"messages": 0}
    assert app.bodies("@NYC") == [b"1"]


def test_purge_of_a_transmission_queue_would_leave_holes(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    assert app.code_of(m.QueuePurge, "@NYC") is ErrorCode.QUEUE_IS_TRANSMISSION


def test_status_reports_the_state(app: Client) -> None:
    app.put("Q", b"1", b"2")
    app.get("Q")
    app.ask(m.LinkCreate, "NYC", LINK)
    status = app.ask(m.Status)
    expected = {
        "name": "QM1",
        "boot": 1,
        "queues": 2,
        "messages": 2,
        "leased": 1,
        "links": 1,
        "links_up": 0,
        "producers": 1,
        "jobs": 0,
        "store_full": "",
        "maintenance": False,
    }
    assert {key: status[key] for key in expected} == expected
    assert status["store_id"] == (b"S" * 16).hex()


def test_status_counts_turns_that_wrote(app: Client) -> None:
    turn = app.ask(m.Status)["turn"]
    assert app.ask(m.Status)["turn"] == turn
    app.put("Q", b"1")
    # one turn for the producer's opening, and one for the put
    assert app.ask(m.Status)["turn"] == turn + 2


def test_snapshot_is_the_shells_to_take_of_a_turn_of_its_own(app: Client) -> None:
    app.put("Q", b"1")
    turn = app.ask(m.Status)["turn"]
    app.send(m.Snapshot(50, "/backup/1"))
    (wanted,) = app.manager.turn().effects
    assert wanted == TakeSnapshot(app.peer.number, 50, "/backup/1", turn + 1)
    assert app.ask(m.Status)["turn"] == turn + 1


def test_switch_over_is_the_shells(manager: Manager, app: Client) -> None:
    app.send(m.SwitchOver(50, "nyc2", 3))
    (wanted,) = manager.turn().effects
    assert wanted == BeginSwitchOver(app.peer.number, 50, "nyc2", 3)
    error = RequestError(ErrorCode.NO_STANDBY, "no standby")
    admin = manager.turns.broker.admin
    manager.turns.intake.event(0, lambda _: admin.answer_switch_over(wanted, {"member": "nyc2"}))
    manager.turns.intake.event(0, lambda _: admin.answer_switch_over(wanted, error))
    manager.turn()
    ok, failed = app.hear()
    assert ok == m.Ok(50, {"member": "nyc2"})
    assert (failed.request_id, failed.code, failed.text) == (50, 1600, "no standby")


def test_snapshot_is_answered_when_it_is_written(manager: Manager, app: Client) -> None:
    broker = manager.turns.broker
    number = app.peer.number
    manager.turns.intake.event(0, lambda _: broker.answer_snapshot(number, 50, {"turn": 7}))
    error = RequestError(ErrorCode.SNAPSHOT_FAILED, "disk full")
    manager.turns.intake.event(0, lambda _: broker.answer_snapshot(number, 51, error))
    manager.turns.intake.event(0, lambda _: broker.answer_snapshot(999, 52, {}))
    manager.turn()
    ok, failed = app.hear()
    assert ok == m.Ok(50, {"turn": 7})
    assert (failed.request_id, failed.code, failed.text) == (51, 800, "disk full")


@pytest.mark.parametrize("directory", ["", "relative", "../up"])
def test_snapshot_needs_an_absolute_path(app: Client, directory: str) -> None:
    assert app.code_of(m.Snapshot, directory) is ErrorCode.VALUE_INVALID
