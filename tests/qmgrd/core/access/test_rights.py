"""Names are checked for what they reach, on every way to a queue."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.need import Kind, Right
from qmgrd.core.access.access import Access
from qmgrd.core.access.rights import Needed, refusal
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager, record


@pytest.fixture
def guarded(manager: Manager, app: Client) -> Guarded:
    app.ask(m.QueueCreate, "SECRET")
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "FLIGHTS@NYC")
    return Guarded(manager)


def refused(client: Client, queue: str) -> list[ErrorCode]:
    return [x.code for x in client.put_records(queue, record(b"x"))]


@pytest.mark.parametrize(
    ("right", "code"),
    [(Right.GET, ErrorCode.QUEUE_UNKNOWN), (Right.CREATE, ErrorCode.NOT_AUTHORIZED)],
)
def test_object_of_which_the_user_knows_nothing_does_not_exist(
    right: Right, code: ErrorCode
) -> None:
    assert refusal(Access("bob"), Needed(right, Kind.QUEUE, "Q")).code == code


# Aliases


def test_put_on_an_alias_needs_the_right_on_its_queue(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "SALES", {"alias_of": "SECRET"})
    bob = guarded.user("bob", "put queue SALES")
    assert refused(bob, "SALES") == [ErrorCode.NOT_AUTHORIZED]
    guarded.grant("bob", "put queue SECRET")
    assert refused(bob, "SALES") == []


def test_put_on_an_alias_of_a_remote_queue_needs_the_right_on_that(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "SALES", {"alias_of": "FLIGHTS@NYC"})
    bob = guarded.user("bob", "put queue SALES", "put queue *")
    assert refused(bob, "SALES") == [ErrorCode.NOT_AUTHORIZED]
    guarded.grant("bob", "put queue FLIGHTS@NYC")
    assert refused(bob, "SALES") == []


def test_alias_that_changes_its_queue_needs_another_right_from_then_on(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "SALES", {"alias_of": "Q"})
    bob = guarded.user("bob", "put queue Q", "get queue Q")
    assert refused(bob, "SALES") == []
    assert bob.get("SALES")
    guarded.owner.ask(m.QueueAlter, "SALES", {"alias_of": "SECRET"})
    assert refused(bob, "SALES") == [ErrorCode.QUEUE_UNKNOWN]
    assert bob.code_of(m.Get, "SALES", 1, 0) == ErrorCode.QUEUE_UNKNOWN


def test_alias_with_the_name_of_a_deleted_queue_needs_another_right(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "TEMP")
    bob = guarded.user("bob", "put queue TEMP")
    assert refused(bob, "TEMP") == []
    guarded.owner.ask(m.QueueDelete, "TEMP", True)
    guarded.owner.ask(m.QueueCreate, "TEMP", {"alias_of": "SECRET"})
    assert refused(bob, "TEMP") == [ErrorCode.NOT_AUTHORIZED]
    guarded.owner.ask(m.QueueDelete, "TEMP")
    guarded.owner.ask(m.QueueCreate, "TEMP")
    assert refused(bob, "TEMP") == []


# Backout queues


@pytest.mark.parametrize("kind", [m.QueueCreate, m.QueueAlter, m.TemplateSet])
def test_backout_queue_needs_the_right_to_put_there(guarded: Guarded, kind: Any) -> None:
    rights = ("create queue *", "alter queue *", "create template *", "show queue SECRET")
    bob = guarded.user("bob", *rights)
    name = {"QueueCreate": "NEW", "QueueAlter": "Q", "TemplateSet": "N.*"}[kind.__name__]
    fields = (name, {"backout_queue": "SECRET", "backout_threshold": 1})
    assert bob.code_of(kind, *fields) == ErrorCode.NOT_AUTHORIZED
    guarded.owner.ask(m.QueueCreate, "OTHER", {"alias_of": "SECRET"})
    by_alias = (name, {"backout_queue": "OTHER", "backout_threshold": 1})
    assert bob.code_of(kind, *by_alias) == ErrorCode.NOT_AUTHORIZED
    guarded.grant("bob", "put queue SECRET")
    bob.ask(kind, *fields)


# Links


def far(guarded: Guarded, *grants: str) -> Far:
    guarded.user("FAR", "link peer FAR", *grants)
    found = Far(guarded.manager, user="FAR")
    found.open()
    return found


def test_put_of_a_peer_that_is_forwarded_needs_the_right_on_the_remote_queue(
    guarded: Guarded,
) -> None:
    guarded.owner.ask(m.LinkAlter, "NYC", {"transit": True, "routes": ["BOS"]})
    peer = far(guarded, "put queue *", "put queue GATES@BOS")
    for first_id, queue in enumerate(["FLIGHTS@NYC", "GATES@BOS", "OTHER@BOS"], 1):
        peer.send(first_id, message(first_id), queue=queue)
    assert guarded.owner.bodies("@NYC") == [b"2"]


def test_own_name_in_a_put_of_a_peer_changes_nothing(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "SALES", {"alias_of": "SECRET"})
    peer = far(guarded, "put queue Q", "put queue SALES@QM1", "put queue SECRET@QM1")
    peer.send(1, message(1), queue="Q@QM1")
    peer.send(2, message(2), queue="SECRET@QM1")
    peer.send(3, message(3), queue="SALES@QM1")
    assert guarded.owner.bodies("Q") == [b"1"]
    assert guarded.owner.bodies("SECRET") == []


def test_publication_of_a_peer_needs_the_right_on_the_topic(guarded: Guarded) -> None:
    guarded.owner.ask(m.Subscribe, "#", ":ALL")
    peer = far(guarded, "publish topic a/#")
    for first_id, topic in enumerate(["/a/b", "/b", "/b@QM1", "/a/c@QM1"], 1):
        peer.send(first_id, message(first_id), queue=topic)
    guarded.manager.rest()
    assert [x.body for x in guarded.owner.get(":ALL", 9)] == [b"1", b"4"]


def test_one_stream_over_two_connections_has_the_rights_of_each(guarded: Guarded) -> None:
    one = far(guarded, "put queue Q")
    two = Far(guarded.manager)  # a connection that may do everything
    two.open(path=1)
    one.send(1, message(1), queue="SECRET")
    assert guarded.owner.bodies("SECRET") == []
    two.send(2, message(2), queue="SECRET")
    assert guarded.owner.bodies("SECRET") == [b"2"]


@pytest.mark.parametrize("kind", [m.LinkCreate, m.LinkAlter])
def test_route_needs_the_right_to_create_the_link_that_it_replaces(
    guarded: Guarded, kind: type
) -> None:
    """Otherwise the user could lead the messages for another queue manager over its own link."""
    bob = guarded.user("bob", "create link MINE", "alter link MINE")
    attributes = {"addresses": ["mine:1"], "stopped": True}
    if kind is m.LinkAlter:
        guarded.owner.ask(m.LinkCreate, "MINE", attributes)
        attributes = {}
    for routes in (["BOS"], ["*"]):
        code = bob.code_of(kind, "MINE", attributes | {"routes": routes})
        assert code == ErrorCode.NOT_AUTHORIZED
    guarded.grant("bob", "create link BOS")
    bob.ask(kind, "MINE", attributes | {"routes": ["BOS"]})
