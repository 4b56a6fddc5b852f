"""Tests that operators can list connections, and close one."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.unit_of_work import UnitOfWork

NYC_STORE = b"N" * 16


def rows(app: Client) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in app.ask(m.ConnectionList)["connections"]}


def test_row_shows_what_a_connection_holds(manager: Manager, app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    worker = manager.connect("worker")
    worker.consume("Q", messages=2)
    worker.send(m.Get(70, "Q2", 1, 60_000))
    app.ask(m.QueueCreate, "Q2")
    worker.send(m.Get(71, "Q2", 1, 60_000))
    manager.advance(1_500)
    manager.turn()
    row = rows(app)["worker"]
    assert row == {
        "connection": worker.peer.number,
        "kind": "client",
        "name": "worker",
        "user": "",
        "software": "",
        "open_ms": 1_500,
        "consumers": 1,
        "gets": 1,
        "units": 0,
        "leased": 2,
        "streams": 0,
    }
    assert rows(app)["app"]["streams"] == 1


def test_leases_that_outlast_their_consumer_count(manager: Manager, app: Client) -> None:
    app.put("Q", b"1")
    app.get("Q")
    row = rows(app)["app"]
    assert (row["gets"], row["leased"]) == (0, 1)


def test_messages_in_units_count_as_leased(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    UnitOfWork(app, 1).get("Q", 2)
    UnitOfWork(app, 2)
    app.get("Q")
    row = rows(app)["app"]
    assert (row["units"], row["leased"]) == (2, 3)


def test_kind_shows_which_end_dialled(manager: Manager, app: Client) -> None:
    manager.connect("NYC", "queue-manager", NYC_STORE)
    assert {name: row["kind"] for name, row in rows(app).items()} == {
        "app": "client",
        "NYC": "inbound",
    }


def test_list_is_paged_by_number(manager: Manager, app: Client) -> None:
    numbers = [app.peer.number, *(manager.connect(f"c{i}").peer.number for i in range(4))]
    manager.turn()
    found, after, pages = [], 0, 0
    while after is not None:
        page = app.ask(m.ConnectionList, after, 2)
        found += [row["connection"] for row in page["connections"]]
        after, pages = page["next"], pages + 1
    assert (found, pages) == (sorted(numbers), 3)


def test_connection_that_never_opened_is_not_listed(manager: Manager, app: Client) -> None:
    mute = manager.connect()
    mute.peer.closed("gone")
    manager.turn()
    assert list(rows(app)) == ["app"]


def test_closed_connection_gets_a_reason_and_its_leases_return(
    manager: Manager, app: Client
) -> None:
    app.put("Q", b"1")
    worker = manager.connect("worker")
    worker.consume("Q")
    manager.turn()
    assert app.show("Q")["leased"] == 1
    row = app.ask(m.ConnectionClose, worker.peer.number)
    assert (row["name"], row["leased"]) == ("worker", 1)
    assert worker.goaway is not None
    assert (worker.goaway.code, worker.goaway.text) == (201, "closed by an operator of QM1")
    manager.rest()
    assert [app.show("Q")[key] for key in ("leased", "ready", "consumers")] == [0, 1, 0]
    assert list(rows(app)) == ["app"]


def test_closing_is_noted(manager: Manager, app: Client) -> None:
    worker = manager.connect("worker")
    manager.turn()
    app.send(m.ConnectionClose(9, worker.peer.number))
    (note,) = manager.turn().notes
    assert (note.level, note.facts["peer"], note.facts["by"]) == ("warning", "worker", "app")


def test_unknown_connection_is_refused(app: Client) -> None:
    with pytest.raises(RequestError, match="connection 99 does not exist") as caught:
        app.ask(m.ConnectionClose, 99)
    assert caught.value.code == ErrorCode.CONNECTION_UNKNOWN


def test_own_connection_cannot_be_closed(app: Client) -> None:
    assert app.code_of(m.ConnectionClose, app.peer.number) is ErrorCode.VALUE_INVALID
