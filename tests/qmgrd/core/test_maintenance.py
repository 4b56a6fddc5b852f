"""Tests of a start for maintenance, in which the daemon does only what the operator requests."""

from qmgr_protocol import messages as m
from qmgrd.core.turn import Turns
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.pubsub import Hub


def maintained(manager: Manager) -> Client:
    """Starts *manager* again for an operator; returns a client."""
    manager.crash()
    manager.turns = Turns(
        manager.config, manager.store, manager._set_clock, bytes(16), bytes(32), is_maintenance=True
    )
    return manager.connect("operator")


def test_nothing_expires_goes_out_or_is_dialled() -> None:
    hub = Hub()
    hub.subscribe("t", "B:late")
    hub.app.ask(m.QueueCreate, "Q")
    hub.app.put("Q", b"brief", expiry_ms=10)
    hub.app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    hub.send("t", b"")
    app = maintained(hub.manager)
    hub.manager.turn(3_600_000)
    assert hub.manager.last.effects == []
    assert hub.manager.turns.broker.next_timer_ms() is None
    assert app.show("Q")["expired"] == 0
    assert app.ask(m.Status)["maintenance"] is True
    (link,) = app.ask(m.LinkList)["links"]
    assert link["state"] == "waiting"
    assert link["error"].startswith("in maintenance: the daemon dials no link; restart it without")
    assert not hub.manager.turns.has_work
    app.put("/t", b"waits")
    assert app.show("B:late")["depth"] == 0
    hub.manager.crash()
    app = hub.manager.connect()
    hub.manager.rest()
    assert (app.show("Q")["expired"], app.show("B:late")["depth"]) == (1, 1)


def test_job_that_a_stop_left_waits_and_one_that_is_asked_runs() -> None:
    manager = Manager()
    app = manager.connect()
    for name in ("A", "B", "C"):
        app.ask(m.QueueCreate, name)
        app.put(name, b"x")
    manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    job = app.ask(m.QueueMove, "A", "C", "", 0, 0, False, 0)["job"]
    app = maintained(manager)
    assert app.ask(m.QueuePurge, "B")["messages"] == 1
    assert app.ask(m.QueueDelete, "C", True)["messages"] == 1
    manager.rest()
    assert (app.show("A")["depth"], app.show("B")["depth"]) == (1, 0)
    assert app.ask(m.JobCancel, job)["state"] == "cancelled"
