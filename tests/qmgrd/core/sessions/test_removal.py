"""Tests of deleting queues and subscriptions. test_drop.py tests how their messages are removed."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.broker import Broker
from qmgrd.core.sessions.removal import Removal
from tests.qmgrd.core.harness import Client
from tests.qmgrd.core.pubsub import Hub


def removed(client: Client, name: str) -> int:
    """Removes *name* in a turn; returns the number of messages on it."""
    counts: list[int] = []

    def remove(broker: Broker) -> None:
        removal = Removal(broker.catalogue, broker.delivery, broker.jobs)
        counts.append(removal.remove(name))

    client.manager.turns.intake.event(0, remove)
    client.manager.turn()
    return counts[0]


def test_messages_are_counted_wherever_they_wait(app: Client) -> None:
    app.put("Q", b"1", b"2")
    app.put("Q", b"later", delay_ms=60_000)
    assert removed(app, "Q") == 3
    assert app.code_of(m.QueueShow, "Q") is ErrorCode.QUEUE_UNKNOWN


def test_consumers_end(app: Client) -> None:
    app.consume("Q")
    app.say()
    removed(app, "Q")
    (ended,) = app.hear()
    assert isinstance(ended, m.Ended)
    assert ended.code == ErrorCode.QUEUE_DELETED


def test_alias_holds_no_messages(app: Client) -> None:
    app.put("Q", b"1")
    app.ask(m.QueueCreate, "SALES", {"alias_of": "Q"})
    assert removed(app, "SALES") == 0
    assert app.bodies("Q") == [b"1"]


def test_publications_of_a_subscription_go_with_their_last_holder() -> None:
    hub = Hub()
    hub.subscribe("t", "B:late")
    hub.subscribe("t", "B:more")
    hub.publish("t", b"1")
    hub.park("B:late")
    assert removed(hub.app, "B:late") == 1
    hub.manager.rest()
    assert hub.take("B:more") == [b"1"]
    hub.empty()
