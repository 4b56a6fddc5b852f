"""Tests of definitions of queues, remote queues and links, and of their names and ids."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record

LINK = {"addresses": ["h:1"]}


def test_definitions_survive_a_restart(store: AnyStore, app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 3, "lease_ms": 500})
    app.ask(m.LinkCreate, "NYC", LINK)
    app.ask(m.QueueCreate, "F@NYC")
    before = app.ask(m.QueueList)
    app.manager.restart()
    assert app.manager.connect().ask(m.QueueList) == before
    assert [row["queue"] for row in before["queues"]] == ["@NYC", "F@NYC", "Q", "SMALL"]


def test_same_definition_again_changes_nothing(app: Client) -> None:
    attributes = {"depth_max": 3}
    first = app.ask(m.QueueCreate, "SMALL", attributes)
    assert app.ask(m.QueueCreate, "SMALL", attributes) == first


@pytest.mark.parametrize("other", [{}, {"depth_max": 4}, {"depth_max": 3, "lease_ms": 500}])
def test_other_definition_of_a_name_is_refused(app: Client, other: dict[str, Any]) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 3})
    with pytest.raises(RequestError, match=r"exists with other attributes: \{'depth_m") as c:
        app.ask(m.QueueCreate, "SMALL", other)
    assert c.value.code == ErrorCode.QUEUE_EXISTS


@pytest.mark.parametrize(
    "name", ["", "a/b", "a b", "a\0b", "%s%n", "x" * 65, "x" * 300, "ü", "a@", "@", "a@b@c", "..\n"]
)
def test_invalid_name_is_refused_and_quoted(app: Client, name: str) -> None:
    for kind in (m.QueueCreate, m.QueueShow, m.QueueDelete, m.QueuePurge, m.Browse, m.Get):
        with pytest.raises(RequestError, match="is not a valid name") as caught:
            app.ask(kind, name)
        assert caught.value.code == ErrorCode.NAME_INVALID
        assert caught.value.text.isprintable()
        assert len(caught.value.text) < 250


@pytest.mark.parametrize(
    "name", ["a", "Z" * 64, "DEAD-LETTER_1", "SYSTEMS.1", "..", "%".replace("%", "-")]
)
def test_valid_name_is_accepted(app: Client, name: str) -> None:
    assert app.ask(m.QueueCreate, name)["queue"] == name


def test_alteration_survives_a_restart(store: AnyStore, app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    app.ask(m.QueueCreate, "F@NYC")
    app.ask(m.QueueAlter, "Q", {"depth_max": 3, "get_inhibit": True})
    app.ask(m.QueueAlter, "F@NYC", {"put_inhibit": True})
    app.ask(m.QueueAlter, "@NYC", {"depth_max": 5})
    app.manager.crash()
    found = app.manager.connect().ask(m.QueueList)["queues"]
    transmission, remote, local, _ = found  # The last queue has the events and is not checked.
    assert (transmission["depth_max"], transmission["put_inhibit"]) == (5, False)
    assert (remote["put_inhibit"], remote["given"]) == (True, [])
    assert (local["depth_max"], local["get_inhibit"], local["given"]) == (3, True, ["depth_max"])


def test_alteration_that_cannot_be_changes_nothing(app: Client) -> None:
    before = app.show("Q")
    with pytest.raises(RequestError, match="lease of queue Q: 1 ms is too small") as caught:
        app.ask(m.QueueAlter, "Q", {"depth_max": 3, "lease_ms": 1})
    assert caught.value.code == ErrorCode.VALUE_INVALID
    assert app.code_of(m.QueueAlter, "NONE", {}) is ErrorCode.QUEUE_UNKNOWN
    assert app.code_of(m.QueueAlter, "a/b", {}) is ErrorCode.NAME_INVALID
    assert app.show("Q") == before


def test_queue_lives_on_under_its_alterations(app: Client) -> None:
    app.put("Q", b"1", b"2")
    app.ask(m.QueueAlter, "Q", {"depth_max": 1})
    assert app.put_records("Q", record(b"3"))[0].code is ErrorCode.QUEUE_FULL
    app.ack(*app.get("Q", 2))
    app.put("Q", b"4")
    app.ask(m.QueueAlter, "Q", {"depth_max": None, "lease_ms": 100})
    app.put("Q", b"5")
    app.get("Q")
    app.manager.turn(100)
    assert [(x.body, x.failed) for x in app.get("Q", 2)] == [(b"4", 1), (b"5", 0)]


def test_definition_again_leaves_an_inhibit_alone(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    assert app.ask(m.QueueCreate, "Q")["put_inhibit"]
    assert app.code_of(m.QueueCreate, "Q", {"put_inhibit": False}) is ErrorCode.QUEUE_EXISTS


def test_queue_may_be_inhibited_from_its_creation_on(app: Client) -> None:
    app.ask(m.QueueCreate, "NEW", {"put_inhibit": True})
    assert app.put_records("NEW", record(b"x"))[0].code is ErrorCode.PUT_INHIBITED


def test_case_matters(app: Client) -> None:
    app.ask(m.QueueCreate, "q")
    app.put("q", b"x")
    assert app.bodies("Q") == []


def test_error_of_an_unknown_queue_shows_how_to_create_it(app: Client) -> None:
    with pytest.raises(RequestError, match=r"; create it$") as caught:
        app.show("NONE")
    assert caught.value.code == ErrorCode.QUEUE_UNKNOWN


def test_queue_ids_are_never_used_again(store: AnyStore, app: Client) -> None:
    """Deletions and restarts do not free ids, so old handles and jobs never match a new queue."""
    seen = set()
    for _ in range(4):
        seen.add(app.ask(m.QueueCreate, "X")["queue_id"])
        app.ask(m.QueueDelete, "X")
        app.manager.crash()
        app = app.manager.connect()
    assert len(seen) == 4


def test_recreated_queue_has_no_state_of_the_old_one(app: Client) -> None:
    app.put("Q", b"old")
    (lease,) = app.get("Q")
    app.ask(m.QueueDelete, "Q", True)
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"new")
    assert app.ack(lease) == []
    app.manager.rest()
    assert app.bodies("Q") == [b"new"]
    assert app.show("Q")["puts"] == 1


def test_queues_are_limited() -> None:
    app = Manager(limits={"queues_max": 2}).connect()
    app.ask(m.QueueCreate, "A")
    app.ask(m.QueueCreate, "B")
    assert app.code_of(m.QueueCreate, "C") is ErrorCode.QUEUES_EXHAUSTED
    assert app.code_of(m.LinkCreate, "NYC", LINK) is ErrorCode.QUEUES_EXHAUSTED
    app.ask(m.QueueCreate, "A")


def test_remote_queue_needs_its_link(app: Client) -> None:
    assert app.code_of(m.QueueCreate, "F@NYC") is ErrorCode.LINK_UNKNOWN
    app.ask(m.LinkCreate, "NYC", LINK)
    row = app.ask(m.QueueCreate, "F@NYC")
    assert (row["kind"], row["target"], row["manager"]) == ("remote", "F", "NYC")


def test_transmission_queue_comes_with_its_link_only(app: Client) -> None:
    assert app.code_of(m.QueueCreate, "@NYC") is ErrorCode.QUEUE_IS_TRANSMISSION
    app.ask(m.LinkCreate, "NYC", LINK)
    assert app.show("@NYC")["kind"] == "transmission"
    assert app.code_of(m.QueueDelete, "@NYC") is ErrorCode.QUEUE_IS_TRANSMISSION


def test_put_to_a_remote_queue_waits_on_the_transmission_queue(app: Client) -> None:
    """A link sends messages in order of their ids. A queue delivers them in order of priority."""
    app.ask(m.LinkCreate, "NYC", LINK)
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"low", priority=0)
    app.put("F@NYC", b"high", priority=9)
    assert app.bodies("@NYC") == [b"low", b"high"]
    assert app.code_of(m.Get, "F@NYC") is ErrorCode.QUEUE_IS_REMOTE


def test_attributes_of_a_newer_version_are_kept(store: AnyStore, app: Client) -> None:
    manager = app.manager
    tx = manager.store.begin()
    row = unpack(rows.get(tx, keys.SPACE_QUEUE + b"Q"))
    rows.put(tx, keys.SPACE_QUEUE + b"Q", pack(row | {"colour": "red"}))
    manager.store.commit()
    manager.crash()
    assert manager.connect().show("Q")["colour"] == "red"


def test_queue_that_is_missing_may_be_another_one_meant(app: Client) -> None:
    app.ask(m.QueueCreate, "ORDERS")
    meant = "queue ORDER does not exist here; did you mean ORDERS? if not, create it"
    (refused,) = app.put_records("ORDER", record(b"x"))
    assert refused.text == meant
    requests: list[tuple[Any, ...]] = [
        (m.Get, "ORDER"),
        (m.Consume, "ORDER", 1, 1),
        (m.QueueAlter, "ORDER", {}),
    ]
    for request in requests:
        with pytest.raises(RequestError) as caught:
            app.ask(*request)
        assert caught.value.text == meant
    (refused,) = app.put_records("FIGS", record(b"x"))
    assert refused.text == "queue FIGS does not exist here; create it"
    (refused,) = app.put_records("@EWR", record(b"x"))
    assert refused.text == "queue @EWR does not exist here; create it"
