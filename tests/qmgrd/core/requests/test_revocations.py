"""A revoked right is in force from the next turn, also for what was allowed before."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import FLAG_RETAINED
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager, record

PEER_GRANTS = ("link peer FAR", "put queue Q")


@pytest.fixture
def guarded(manager: Manager, app: Client) -> Guarded:
    """A manager with the queue Q, and with users."""
    return Guarded(manager)


def ended(heard: list[Any]) -> list[tuple[int, int]]:
    return [(x.request_id, x.code) for x in heard if type(x) is m.Ended]


def test_consumer_ends_and_its_leased_messages_return(guarded: Guarded) -> None:
    bob = guarded.user("bob", "get queue Q")
    guarded.owner.put("Q", b"1", b"2")
    request_id = bob.consume("Q")
    guarded.manager.turn()
    assert [x.body for x in bob.delivered()] == [b"1", b"2"]
    guarded.revoke("bob", "get queue Q")
    assert ended(bob.hear()) == [(request_id, ErrorCode.NOT_AUTHORIZED)]
    assert [x.body for x in guarded.owner.get("Q", 2)] == [b"1", b"2"]


def test_message_put_in_the_turn_of_the_revocation_is_not_delivered(guarded: Guarded) -> None:
    bob = guarded.user("bob", "get queue Q")
    producer = guarded.owner.producer()
    bob.consume("Q")
    guarded.owner.say(
        guarded.revoking("bob", "get queue Q"),
        m.Put(producer.stream, producer.next_id, 0, "Q", [record(b"secret")]),
    )
    guarded.manager.rest()
    assert bob.delivered() == []
    assert guarded.owner.bodies("Q") == [b"secret"]


def test_waiting_get_is_refused(guarded: Guarded) -> None:
    bob = guarded.user("bob", "get queue Q")
    bob.say(m.Get(7, "Q", 1, 60_000))
    guarded.revoke("bob", "get queue Q")
    (answer,) = bob.hear()
    assert (type(answer), answer.request_id, answer.code) == (m.Error, 7, ErrorCode.NOT_AUTHORIZED)


def test_messages_of_an_ended_get_return(guarded: Guarded) -> None:
    bob = guarded.user("bob", "get queue Q")
    guarded.owner.put("Q", b"1")
    (found,) = bob.get("Q")
    guarded.revoke("bob", "get queue Q")
    (again,) = guarded.owner.get("Q")
    assert again.body == b"1"
    assert bob.ack(found) == [ErrorCode.LEASE_LOST]


def test_receiver_may_still_acknowledge_what_nobody_else_has_leased(guarded: Guarded) -> None:
    """The handle proves that the user received the message while it had the right."""
    bob = guarded.user("bob", "get queue Q")
    guarded.owner.put("Q", b"1")
    (found,) = bob.get("Q")
    guarded.revoke("bob", "get queue Q")
    assert bob.ack(found) == []
    assert guarded.owner.bodies("Q") == []


def test_reader_frees_its_group(guarded: Guarded) -> None:
    bob = guarded.user("bob", "get queue Q")
    bob.say(m.Get(7, "Q", 1, 0, order=m.LOGICAL, reader=1))
    (session,) = [x for x in guarded.manager.turns.broker.sessions.values() if x.name == "bob"]
    assert list(session.readers) == [1]
    bob.say(m.Get(8, "Q", 1, 60_000, order=m.LOGICAL, reader=1))
    guarded.revoke("bob", "get queue Q")
    assert not session.readers
    assert not session.consumers


def test_consumer_that_keeps_its_right_goes_on(guarded: Guarded) -> None:
    bob = guarded.user("bob", "get queue Q", "put queue Q", "get queue *")
    bob.consume("Q")
    guarded.revoke("bob", "put queue Q")
    guarded.revoke("bob", "get queue Q")
    guarded.owner.put("Q", b"1")
    assert [x.body for x in bob.delivered()] == [b"1"]


def test_other_user_is_not_touched(guarded: Guarded) -> None:
    bob, eve = guarded.user("bob", "get queue Q"), guarded.user("eve", "get queue Q")
    bob.consume("Q")
    eve.consume("Q")
    guarded.revoke("eve", "get queue Q")
    guarded.owner.put("Q", b"1")
    assert [x.body for x in bob.delivered()] == [b"1"]


def test_role_that_loses_a_grant_ends_the_consumers_of_its_users(guarded: Guarded) -> None:
    guarded.owner.ask(m.RoleCreate, "readers")
    guarded.owner.ask(m.GrantCreate, "", "readers", ["get"], "queue", "Q")
    bob = guarded.user("bob", roles=("readers",))
    request_id = bob.consume("Q")
    guarded.owner.ask(m.GrantDelete, "", "readers", ["get"], "queue", "Q")
    assert ended(bob.hear()) == [(request_id, ErrorCode.NOT_AUTHORIZED)]


def test_user_that_loses_a_role_loses_its_consumers(guarded: Guarded) -> None:
    bob = guarded.user("bob", roles=("consumer",))
    request_id = bob.consume("Q")
    guarded.owner.ask(m.UserAlter, "bob", {"roles": []})
    assert ended(bob.hear()) == [(request_id, ErrorCode.NOT_AUTHORIZED)]


@pytest.mark.parametrize("change", ["disable", "delete"])
def test_disabled_or_deleted_user_is_disconnected(guarded: Guarded, change: str) -> None:
    bob = guarded.user("bob", "get queue Q")
    guarded.owner.put("Q", b"1")
    assert bob.get("Q")
    if change == "disable":
        guarded.owner.ask(m.UserAlter, "bob", {"enabled": False})
    else:
        guarded.owner.ask(m.UserDelete, "bob")
    assert bob.goaway is not None
    assert guarded.owner.bodies("Q") == [b"1"]


def test_rights_that_are_only_reported_end_nothing() -> None:
    manager = Manager(auth={"mode": "report"})
    guarded = Guarded(manager)
    guarded.owner.ask(m.QueueCreate, "Q")
    bob = guarded.user("bob", "get queue Q")
    bob.consume("Q")
    guarded.owner.send(guarded.revoking("bob", "get queue Q"))
    notes = manager.turn().notes
    assert [x.facts["user"] for x in notes if x.event.startswith("auth.mode")] == ["bob"]
    guarded.owner.put("Q", b"1")
    assert [x.body for x in bob.delivered()] == [b"1"]


# Links


def test_put_of_a_link_is_checked_with_the_rights_of_its_turn(guarded: Guarded) -> None:
    guarded.user("FAR", *PEER_GRANTS)
    far = Far(guarded.manager, user="FAR")
    far.open()
    far.send(1, message(1))
    guarded.revoke("FAR", "put queue Q")
    far.send(2, message(2))
    assert guarded.owner.bodies("Q") == [b"1"]


def test_peer_without_the_right_to_link_is_disconnected(guarded: Guarded) -> None:
    guarded.user("FAR", *PEER_GRANTS)
    far = Far(guarded.manager, user="FAR")
    far.open()
    guarded.revoke("FAR", "put queue Q")
    assert far.client.goaway is None
    guarded.revoke("FAR", "link peer FAR")
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.NOT_AUTHORIZED


def test_peer_without_the_right_to_link_is_listed_as_refused(guarded: Guarded) -> None:
    guarded.user("FAR", "put queue Q")
    far = Far(guarded.manager, user="FAR")
    with pytest.raises(RequestError) as refused:
        far.open()
    (row,) = guarded.owner.ask(m.LinkList)["refused"]
    assert (row["peer"], row["code"], row["count"]) == ("FAR", "NOT_AUTHORIZED", 1)
    assert row["error"] == str(refused.value)
    assert "the right to link on peer FAR is required" in row["error"]
    guarded.grant("FAR", "link peer FAR")
    far.open()
    assert guarded.owner.ask(m.LinkList)["refused"] == []


def test_peer_without_the_right_to_fetch_is_disconnected(guarded: Guarded) -> None:
    guarded.user("FAR", "fetch peer FAR", "show manager")
    guarded.owner.ask(m.LinkCreate, "FAR", {"addresses": []})
    far = Far(guarded.manager, user="FAR")
    far.client.ask(m.LinkFetch, 0, 65_536, 1_000, 1_000, 1_000)
    guarded.revoke("FAR", "show manager")
    assert far.client.goaway is None
    guarded.revoke("FAR", "fetch peer FAR")
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.NOT_AUTHORIZED


# Subscriptions

SUBSCRIBER = ("subscribe topic a/#", "create subscription *", "get subscription *")


def publish(guarded: Guarded, body: bytes) -> None:
    guarded.owner.put("/a/b", body)
    guarded.manager.rest()


def bodies(client: Client, name: str) -> list[bytes]:
    found = client.get(name, 100)
    if found:
        client.ack(*found)
    return [x.body for x in found]


def test_durable_subscription_receives_nothing_while_its_owner_may_not_subscribe(
    guarded: Guarded,
) -> None:
    bob = guarded.user("bob", *SUBSCRIBER)
    bob.ask(m.Subscribe, "a/+", "bob:late")
    publish(guarded, b"1")
    guarded.revoke("bob", "subscribe topic a/#")
    publish(guarded, b"2")
    guarded.grant("bob", "subscribe topic a/b")  # This is less than the filter.
    publish(guarded, b"3")
    guarded.grant("bob", "subscribe topic a/#")
    publish(guarded, b"4")
    assert bodies(bob, "bob:late") == [b"1", b"4"]
    assert guarded.owner.show("bob:late")["missed"] == 2


def test_subscription_stays_refused_after_a_restart(guarded: Guarded) -> None:
    bob = guarded.user("bob", *SUBSCRIBER)
    bob.ask(m.Subscribe, "a/+", "bob:late")
    guarded.revoke("bob", "subscribe topic a/#")
    guarded.manager.restart()
    guarded.owner = guarded.manager.connect("owner again")
    publish(guarded, b"1")
    assert bodies(guarded.owner, "bob:late") == []
    guarded.grant("bob", "subscribe topic a/#")
    publish(guarded, b"2")
    assert bodies(guarded.owner, "bob:late") == [b"2"]


def test_subscription_of_a_deleted_user_receives_nothing(guarded: Guarded) -> None:
    guarded.user("bob", *SUBSCRIBER).ask(m.Subscribe, "a/+", "bob:late")
    guarded.owner.ask(m.UserDelete, "bob")
    publish(guarded, b"1")
    assert bodies(guarded.owner, "bob:late") == []


def test_subscription_that_began_without_a_user_goes_on(guarded: Guarded) -> None:
    guarded.owner.ask(m.Subscribe, "a/+", "any:late")
    guarded.user("bob", *SUBSCRIBER)
    guarded.revoke("bob", "subscribe topic a/#")
    publish(guarded, b"1")
    assert bodies(guarded.owner, "any:late") == [b"1"]


def test_retained_publication_does_not_reach_a_refused_subscription(guarded: Guarded) -> None:
    guarded.owner.put("/a/b", b"1", flags=FLAG_RETAINED)
    guarded.manager.rest()
    bob = guarded.user("bob", *SUBSCRIBER)
    bob.send(m.Subscribe(bob.next_id(), "a/+", "bob:early", "", {}, True))
    guarded.manager.rest()
    bob.send(m.Subscribe(bob.next_id(), "a/+", "bob:late", "", {}, True))
    guarded.owner.say(guarded.revoking("bob", "subscribe topic a/#"))
    guarded.manager.rest()
    assert bodies(guarded.owner, "bob:early") == [b"1"]
    assert bodies(guarded.owner, "bob:late") == []


def test_subscription_of_a_connection_ends_its_consumer(guarded: Guarded) -> None:
    bob = guarded.user("bob", "subscribe topic a/#")
    row = bob.ask(m.Subscribe, "a/#")
    name = row["subscription"]
    request_id = bob.consume(name)
    publish(guarded, b"1")
    assert [x.body for x in bob.delivered()] == [b"1"]
    guarded.revoke("bob", "subscribe topic a/#")
    assert ended(bob.hear()) == [(request_id, ErrorCode.NOT_AUTHORIZED)]
    assert bob.code_of(m.Get, name, 1, 0) == ErrorCode.SUBSCRIPTION_UNKNOWN
    bob.ask(m.Unsubscribe, name)


@pytest.mark.parametrize("right", ["create", "get"])
def test_durable_subscription_is_resumed_with_a_right_on_it(guarded: Guarded, right: str) -> None:
    guarded.owner.ask(m.Subscribe, "a/+", "any:late")
    bob = guarded.user("bob", "subscribe topic a/#")
    code = bob.code_of(m.Subscribe, "a/+", "any:late")
    assert code == ErrorCode.NOT_AUTHORIZED
    guarded.grant("bob", f"{right} subscription any:*")
    assert bob.ask(m.Subscribe, "a/+", "any:late")["subscription"] == "any:late"
    if right == "get":
        assert bob.code_of(m.Subscribe, "a/+", "any:new") == ErrorCode.NOT_AUTHORIZED
