"""The queues that the queue manager needs itself."""

from collections.abc import Callable

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.system import ATTRIBUTES, DEAD_LETTERS, EVENTS, PUBLICATIONS
from tests.qmgrd.core.harness import AnyStore, Client, Manager

USES: list[Callable[[Client, str], object]] = [
    lambda app, name: app.put(name, b"x"),
    lambda app, name: app.get(name),
    lambda app, name: app.show(name),
    lambda app, name: app.bodies(name),
    lambda app, name: app.ask(m.QueueAlter, name, {"lease_ms": 1_000}),
    lambda app, name: app.ask(m.QueueCreate, name),
]


@pytest.mark.parametrize("name", [DEAD_LETTERS, EVENTS])
@pytest.mark.parametrize("use", USES)
def test_system_queue_is_made_by_whatever_use(
    name: str, use: Callable[[Client, str], object]
) -> None:
    app = Manager().connect()
    assert app.ask(m.QueueList)["queues"] == []
    use(app, name)
    row = app.show(name)
    assert row["kind"] == "local"
    assert ATTRIBUTES[name].items() <= row.items()
    app.manager.crash()
    assert name in [row["queue"] for row in app.manager.connect().ask(m.QueueList)["queues"]]


def test_events_make_room_for_newer_ones_and_dead_letters_do_not(app: Client) -> None:
    assert app.show(EVENTS)["overflow"] == "discard-oldest"
    assert app.show(EVENTS)["given"] == ["depth_max", "overflow"]
    assert (app.show(DEAD_LETTERS)["overflow"], app.show(DEAD_LETTERS)["given"]) == ("refuse", [])


def test_system_queues_come_beyond_the_limit_and_take_no_room() -> None:
    app = Manager(limits={"queues_max": 2}).connect()
    app.put(DEAD_LETTERS, b"x")
    app.ask(m.QueueCreate, "A")
    app.ask(m.QueueCreate, "B")
    app.put(EVENTS, b"x")
    with pytest.raises(RequestError, match="2 queues, at most 2") as caught:
        app.ask(m.QueueCreate, "C")
    assert caught.value.code is ErrorCode.QUEUES_EXHAUSTED


@pytest.mark.parametrize("use", [*USES[2:4], USES[5]])
def test_queue_of_publications_is_made_by_whatever_asks_for_it(
    use: Callable[[Client, str], object],
) -> None:
    """Nobody puts to it or gets from it (test_publications.py)."""
    app = Manager().connect()
    use(app, PUBLICATIONS)
    row = app.show(PUBLICATIONS)
    assert row["kind"] == "publications"
    assert ATTRIBUTES[PUBLICATIONS].items() <= row.items()


@pytest.mark.parametrize("name", [DEAD_LETTERS, EVENTS])
def test_system_queue_is_altered_and_purged_but_not_deleted(
    store: AnyStore, app: Client, name: str
) -> None:
    app.put(name, b"x")
    app.ask(m.QueueAlter, name, {"depth_max": 7})
    for purge in (False, True):
        with pytest.raises(RequestError, match=f"{name} is needed by the queue manager") as caught:
            app.ask(m.QueueDelete, name, purge)
        assert caught.value.code is ErrorCode.QUEUE_IS_SYSTEM
    app.manager.crash()
    app = app.manager.connect()
    assert app.show(name)["depth_max"] == 7
    assert app.ask(m.QueuePurge, name)["messages"] == 1


@pytest.mark.parametrize("name", ["SYSTEM.MINE", "SYSTEM.", "SYSTEM.DEAD.LETTERS.1"])
def test_prefix_is_reserved(app: Client, name: str) -> None:
    for given in ({}, {"alias_of": "Q"}):
        with pytest.raises(RequestError, match="are reserved for the queue manager") as c:
            app.ask(m.QueueCreate, name, given)
        assert c.value.code is ErrorCode.NAME_INVALID
    assert app.code_of(m.QueueShow, name) is ErrorCode.QUEUE_UNKNOWN


def test_system_queue_elsewhere_may_have_a_remote_queue_and_an_alias(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    assert app.ask(m.QueueCreate, f"{DEAD_LETTERS}@NYC")["kind"] == "remote"
    app.ask(m.QueueCreate, "DLQ", {"alias_of": DEAD_LETTERS})
    app.put("DLQ", b"x")
    assert app.bodies(DEAD_LETTERS) == [b"x"]


def test_system_queue_is_no_alias(app: Client) -> None:
    assert app.code_of(m.QueueCreate, DEAD_LETTERS, {"alias_of": "Q"}) is ErrorCode.QUEUE_EXISTS
