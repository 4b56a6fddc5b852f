"""Tests of aliases, which are names of other queues."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.named import Alias, Remote, named
from tests.qmgrd.core.harness import AnyStore, Client, record

LINK = {"addresses": ["h:1"]}


@pytest.fixture
def sales(app: Client) -> Client:
    """A client of a queue manager with the queue Q and its alias SALES."""
    row = app.ask(m.QueueCreate, "SALES", {"alias_of": "Q"})
    assert (row["kind"], row["alias_of"], row["queue_id"]) == ("alias", "Q", 0)
    return app


def test_name_is_made_from_its_row() -> None:
    row = {"kind": "remote", "queue_id": 0, "put_inhibit": True}
    assert named("F@NYC", row) == Remote("F@NYC", "F", "NYC", put_inhibit=True)
    row = {"kind": "alias", "queue_id": 0, "alias_of": "Q", "get_inhibit": True}
    assert named("S", row) == Alias("S", "Q", get_inhibit=True)


def test_puts_gets_and_browse_by_an_alias_are_of_its_queue(sales: Client) -> None:
    sales.put("SALES", b"a", b"b")
    assert sales.bodies("Q") == sales.bodies("SALES") == [b"a", b"b"]
    (lease,) = sales.get("SALES")
    assert sales.ack(lease) == []
    assert sales.show("Q")["depth"] == 1
    assert sales.ask(m.QueuePurge, "SALES")["messages"] == 1


def test_alias_of_a_remote_queue_leads_over_its_link(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    app.ask(m.QueueCreate, "F@NYC")
    app.ask(m.QueueCreate, "F", {"alias_of": "F@NYC"})
    app.put("F", b"x")
    assert app.bodies("@NYC") == [b"x"]
    with pytest.raises(RequestError, match="F@NYC is a remote queue") as caught:
        app.ask(m.Get, "F")
    assert caught.value.code == ErrorCode.QUEUE_IS_REMOTE
    app.ask(m.QueueAlter, "F@NYC", {"put_inhibit": True})
    (refused,) = app.put_records("F", record(b"y"))
    assert refused.code is ErrorCode.PUT_INHIBITED
    assert app.show("@NYC")["refused"] == 1


def test_alias_survives_a_restart(store: AnyStore, sales: Client) -> None:
    sales.ask(m.QueueAlter, "SALES", {"put_inhibit": True})
    before = sales.show("SALES")
    sales.manager.crash()
    app = sales.manager.connect()
    assert app.show("SALES") == before
    assert app.put_records("SALES", record(b"x"))[0].code is ErrorCode.PUT_INHIBITED


def test_alias_may_exist_before_and_after_its_queue(app: Client) -> None:
    app.ask(m.QueueCreate, "SALES", {"alias_of": "ORDERS"})
    for _ in range(2):
        (refused,) = app.put_records("SALES", record(b"x"))
        assert refused.code is ErrorCode.QUEUE_UNKNOWN
        assert refused.text.startswith("SALES is an alias of queue ORDERS, which does not exist")
        for kind in (m.Get, m.Browse, m.QueuePurge):
            assert app.code_of(kind, "SALES") is ErrorCode.QUEUE_UNKNOWN
        assert app.show("SALES")["alias_of"] == "ORDERS"
        app.ask(m.QueueCreate, "ORDERS")
        app.put("SALES", b"x")
        app.ask(m.QueueDelete, "ORDERS", True)


def test_inhibits_of_an_alias_hold_for_that_name_alone(sales: Client) -> None:
    sales.ask(m.QueueAlter, "SALES", {"put_inhibit": True, "get_inhibit": True})
    (refused,) = sales.put_records("SALES", record(b"x"))
    assert refused.code is ErrorCode.PUT_INHIBITED
    assert "on queue SALES" in refused.text
    assert sales.show("Q")["refused"] == 1
    assert sales.code_of(m.Get, "SALES") is ErrorCode.GET_INHIBITED
    assert sales.code_of(m.Consume, "SALES", 1, 1) is ErrorCode.GET_INHIBITED
    sales.put("Q", b"x")
    assert sales.bodies("SALES") == [b"x"]
    assert len(sales.get("Q")) == 1


def test_inhibits_of_its_queue_hold_for_an_alias_too(sales: Client) -> None:
    sales.ask(m.QueueAlter, "Q", {"put_inhibit": True, "get_inhibit": True})
    (refused,) = sales.put_records("SALES", record(b"x"))
    assert (refused.code, "on queue Q;" in refused.text) == (ErrorCode.PUT_INHIBITED, True)
    assert sales.code_of(m.Get, "SALES") is ErrorCode.GET_INHIBITED


def test_alias_can_be_led_elsewhere(sales: Client) -> None:
    sales.ask(m.QueueCreate, "R")
    row = sales.ask(m.QueueAlter, "SALES", {"alias_of": "R"})
    assert row["changed"] == {"alias_of": ["Q", "R"]}
    sales.put("SALES", b"x")
    assert (sales.bodies("Q"), sales.bodies("R")) == ([], [b"x"])
    assert sales.ask(m.QueueAlter, "SALES", {"alias_of": "R"})["changed"] == {}


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("A", {"alias_of": "SALES"}, "SALES is itself an alias of Q; use that name"),
        ("Q2", {"alias_of": "X"}, "Q2 cannot become an alias because EARLY is an alias of Q2"),
        ("A", {"alias_of": "A"}, "the value is the name of the queue itself"),
        ("A", {"alias_of": "Q", "depth_max": 1}, "depth_max: unknown attribute"),
        ("A@NYC", {"alias_of": "Q"}, "alias_of: unknown attribute"),
        ("Q", {"alias_of": "R"}, "exists with other attributes"),
    ],
)
def test_alias_that_cannot_be_is_refused(
    sales: Client, name: str, given: dict[str, Any], words: str
) -> None:
    """An alias of an alias is refused, regardless of which of the two is defined first."""
    sales.ask(m.QueueCreate, "EARLY", {"alias_of": "Q2"})
    before = sales.ask(m.QueueList)
    with pytest.raises(RequestError, match=words):
        sales.ask(m.QueueCreate, name, given)
    assert sales.ask(m.QueueList) == before


def test_alias_is_not_led_to_an_alias(sales: Client) -> None:
    sales.ask(m.QueueCreate, "B", {"alias_of": "Q"})
    assert sales.code_of(m.QueueAlter, "B", {"alias_of": "SALES"}) is ErrorCode.VALUE_INVALID
    assert sales.show("B")["alias_of"] == "Q"


def test_alias_is_deleted_without_its_queue(sales: Client) -> None:
    sales.put("SALES", b"x")
    assert sales.ask(m.QueueDelete, "SALES") == {"messages": 0}
    assert sales.code_of(m.QueueShow, "SALES") is ErrorCode.QUEUE_UNKNOWN
    assert sales.bodies("Q") == [b"x"]


def test_same_alias_again_changes_nothing(sales: Client) -> None:
    assert sales.ask(m.QueueCreate, "SALES", {"alias_of": "Q"}) == sales.show("SALES")
    other = {"alias_of": "R"}
    assert sales.code_of(m.QueueCreate, "SALES", other) is ErrorCode.QUEUE_EXISTS
    assert sales.code_of(m.QueueCreate, "SALES") is ErrorCode.QUEUE_EXISTS
