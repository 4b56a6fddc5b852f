"""Tests of topics without asyncio, with a real daemon in a thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, Outgoing, RequestError, connect
from qmgr_client.rows import JobRow
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.served import Server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Server(tmp_path) as server, connect(server.address) as client:
        yield client


def test_publications_come_to_a_loop(client: Client) -> None:
    """C4: Each subscription receives all matching publications."""
    with client.subscribe("a/#") as passing, client.subscribe("a/+", "B:s") as durable:
        assert client.publish("a/b", b"1").subscriptions == 2
        client.publish_many("a/b", [b"2", Outgoing(b"3")])
        for subscription in (passing, durable):
            found = []
            for message in subscription:
                assert message.topic == "a/b"
                client.ack(message)
                found.append(message.body)
                if len(found) == 3:
                    break
            assert found == [b"1", b"2", b"3"]
        assert passing.name.startswith("~")
    assert [row["subscription"] for row in client.admin.subscription_list()] == ["B:s"]


def test_loop_ends_where_it_is_cancelled(client: Client) -> None:
    subscription = client.subscribe("a")
    subscription.open()
    client.publish("a", b"x")
    for message in subscription:
        client.ack(message)
        subscription.cancel()
    assert client.admin.subscription_list() == []
    assert subscription.name


def test_subscribing_that_is_refused_raises(client: Client) -> None:
    with pytest.raises(RequestError) as caught, client.subscribe("a//b"):
        pass
    assert caught.value.code == ErrorCode.TOPIC_INVALID


def finished(client: Client, row: JobRow) -> JobRow:
    while row["ended_us"] is None:
        row = client.admin.job_show(row["job"])
    return row


def test_administration_of_topics(client: Client) -> None:
    """C14, C24: The administration methods for topics return the rows of the daemon."""
    assert client.admin.topic_set("a", redelivery_limit=0)["redelivery_limit"] == 0
    client.admin.subscription_create("a/#", "B:s")
    client.publish("a/kept", b"x", retained=True)
    result = client.publish("a/b", b"x")
    assert result.uid is not None
    for message in client.get_many("B:s", 9):
        client.reject(message, reason="BAD")
    assert [row["topic"] for row in client.admin.republish_list()] == ["a/kept", "a/b"]
    (row,) = client.admin.republish_list(
        uid=result.uid, subscription="B:s", where="dead_reason = 'BAD'"
    )
    assert row["code"] == "MESSAGE_REJECTED"
    assert client.admin.topic_lacks(result.uid)["subscriptions"][0]["state"] == "parked"
    with client.subscribe("a/#", "B:s") as subscription:
        done = client.admin.republish(uid=result.uid, wait=True)
        assert (done["state"], done["done"]) == ("done", 1)
        message = next(subscription)
        assert (message.uid, message.republished) == (result.uid, True)
        client.ack(message)
    assert finished(client, client.admin.republish(drop=True))["done"] == 1
    assert client.admin.subscription_healthy("B:s")["job"] is None
    assert [row["topic"] for row in client.admin.topic_list()] == ["a", "a/kept"]
    assert client.admin.topic_show("a/b")["subscriptions"] == 1
    client.admin.topic_delete("a/kept", retained=True)
    client.admin.topic_delete("a")
    assert client.admin.topic_list() == []
    assert client.unsubscribe("B:s") == {"messages": 0}
