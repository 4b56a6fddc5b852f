"""Tests that groups are updated at the end of a turn, except those set aside after failures."""

from qmgr_protocol import messages as m
from qmgrd.core.broker import Broker
from qmgrd.core.limits.work import WorkId
from tests.qmgrd.core.harness import Manager, record

GROUP = b"g" * 24


def test_groups_that_are_set_aside_are_passed_over_and_fail_no_turn() -> None:
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    queue = manager.queue("Q")

    def set_aside(broker: Broker) -> None:
        broker.context.aside.add(broker.context, WorkId("groups", queue.id), "groups", "a test")

    manager.turns.intake.event(0, set_aside)
    manager.turn()
    assert not app.put_records("Q", record(b"1", group=(GROUP, 1, True)), record(b"plain"))
    assert queue.groups.is_fresh
    assert [x.body for x in app.get("Q", 9)] == [b"1", b"plain"]
