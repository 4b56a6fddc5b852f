"""Tests of bugs that the machine found."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.sessions.unused import LOOK_MS
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.topics_machine.compare import check_store
from tests.qmgrd.core.topics_machine.machine import Machine
from tests.qmgrd.core.topics_machine.things import Wish

UNUSED_MS = 3_000


@pytest.fixture
def manager() -> Iterator[Manager]:
    """Yields a manager; verifies its store at the end."""
    manager = Manager()
    yield manager
    manager.rest()
    check_store(manager)


def names_of(client: Client) -> list[str]:
    return [x["subscription"] for x in client.ask(m.SubscriptionList)["subscriptions"]]


def test_poll_gets_messages_republished_while_it_was_away(manager: Manager, app: Client) -> None:
    """C16: A get without a wait once found nothing, because these copies are sent later."""
    app.ask(m.Subscribe, "a", "B:one", "", {"redelivery_limit": 0})
    app.put("/a", b"failed")
    app.release(*app.get("B:one"))
    app.ask(m.Republish)
    manager.rest()
    (found,) = app.get("B:one")
    assert found.body == b"failed"
    assert found.state & m.STATE_REPUBLISHED
    app.ack(found)
    assert app.get("B:one") == []


def test_poll_ends_if_no_copy_awaits_it(manager: Manager, app: Client) -> None:
    """A parked copy stays parked until an operator decides to republish it."""
    app.ask(m.Subscribe, "a", "B:one", "", {"redelivery_limit": 0})
    app.put("/a", b"failed")
    app.release(*app.get("B:one"))
    assert app.get("B:one") == []
    assert len(app.ask(m.RepublishList)["parked"]) == 1


def test_publication_is_found_under_the_priority_it_was_given(app: Client) -> None:
    """The subscription had a different default when the publication arrived."""
    app.ask(m.Subscribe, "a", "B:one")
    app.put("/a", b"kept", flags=records.FLAG_PRIORITY_OF_QUEUE)
    (shown,) = app.browse("B:one")
    app.ask(m.QueueAlter, "B:one", {"priority_default": 9})
    value = app.ask(m.TopicLacks, records.encode_uid(shown.uid))
    assert [x["subscription"] for x in value["subscriptions"]] == ["B:one"]


def test_a_subscription_in_use_outlives_a_crash(manager: Manager, app: Client) -> None:
    """Otherwise, the subscription counts as unused, and ends before a consumer returns."""
    app.ask(m.Subscribe, "a", "B:one", "", {"unused_expiry_ms": UNUSED_MS})
    app.consume("B:one", messages=0)
    manager.turn(2 * UNUSED_MS)
    manager.crash()
    manager.turn(1)
    app = manager.connect("app")
    assert names_of(app) == ["B:one"]
    manager.turn(UNUSED_MS)
    assert names_of(app) == []


def test_long_stop_leaves_time_to_return(manager: Manager, app: Client) -> None:
    unused_ms = 10 * LOOK_MS
    app.ask(m.Subscribe, "a", "B:one", "", {"unused_expiry_ms": unused_ms})
    manager.restart(2 * unused_ms)
    manager.turn(LOOK_MS - 1)
    app = manager.connect("app")
    assert names_of(app) == ["B:one"]
    manager.turn(1)
    assert names_of(app) == []


def test_altered_subscription_is_checked(manager: Manager, app: Client) -> None:
    """Before the change, it had no time limit, so no check of it was scheduled."""
    app.ask(m.Subscribe, "a", "B:one")
    app.ask(m.QueueAlter, "B:one", {"unused_expiry_ms": UNUSED_MS})
    manager.turn(UNUSED_MS - 1)
    assert names_of(app) == ["B:one"]
    manager.turn(1)
    assert names_of(app) == []


def test_polls_leave_no_timers_behind(manager: Manager, app: Client) -> None:
    """In an earlier version, each get left a timer that kept restarting."""
    app.ask(m.Subscribe, "a", "B:one", "", {"unused_expiry_ms": LOOK_MS})
    timers = manager.turns.broker.context.timers
    for _ in range(500):
        app.get("B:one")
    assert len(timers._heap) < 250


def test_parked_publication_survives_a_restart_with_its_body(manager: Manager, app: Client) -> None:
    """The publication was not persistent and was lost, but its list remained without a body."""
    app.ask(m.Subscribe, "a", "B:one", "", {"redelivery_limit": 0})
    app.ask(m.Subscribe, "a", "B:two")
    app.put("/a", b"kept", flags=records.FLAG_NOT_PERSISTENT)
    app.release(*app.get("B:one"))
    manager.crash()
    manager.rest()
    app = manager.connect("app")
    (row,) = app.ask(m.RepublishList)["parked"]
    assert (row["topic"], row["bytes"]) == ("a", 4)
    assert app.get("B:two") == []
    app.consume("B:one")
    app.ask(m.Republish)
    manager.rest()
    assert [x.body for x in app.delivered()] == [b"kept"]


def test_non_persistent_publication_is_removed_with_its_last_copy(
    manager: Manager, app: Client
) -> None:
    app.ask(m.Subscribe, "a", "B:one")
    app.put("/a", b"lost", flags=records.FLAG_NOT_PERSISTENT)
    manager.restart()
    manager.turn()
    manager.rest()
    row = manager.connect("app").show("SYSTEM.PUBLICATIONS")
    assert (row["depth"], row["lost"]) == (0, 0)


@pytest.mark.parametrize("is_clean", [True, False])
def test_leased_expired_copy_is_expired_by_a_clean_stop_and_lost_in_a_crash(is_clean: bool) -> None:
    """Seed 6008: The model counted a non-persistent copy as lost at a clean stop."""
    machine = Machine()
    table = machine.table
    machine._subscribe(0, "B:one", "a", "", {}, retained=False)
    table.publish(table.seats[0], [Wish("a", expiry_ms=303, is_volatile=True)])
    table.end()
    machine._consume(0, table.model.subscriptions["B:one"], 1, 30_003)
    table.pass_time(310)
    table.restart(0, is_clean=is_clean, resumes=True)
    table.end()
    found = table.model.subscriptions["B:one"]
    assert (found.expired, found.lost) == (is_clean, not is_clean)
