"""Tests that links send in rotation, even if a turn has little time."""

from qmgr_protocol import messages as m
from tests.qmgrd.core.harness import Manager
from tests.qmgrd.core.ticking import MS_NS, Ticking


def test_each_link_has_its_turn_where_a_turn_has_the_time_for_one() -> None:
    clock = Ticking()
    manager = Manager(limits={"turn_ms": 1}, clock_ns=clock)
    app = manager.connect()
    for name in ("B", "A", "C"):
        app.ask(m.LinkCreate, name, {"addresses": ["h:1"]})
    broker = manager.turns.broker
    clock.step_ns = MS_NS
    sent = []
    for _ in range(7):
        for link in broker.catalogue.links.values():
            broker.context.wake(link.queue)
        manager.turn()
        awake = broker.context.awake_queues
        sent += [
            link.name for link in broker.catalogue.links.values() if link.queue.id not in awake
        ]
    assert sent == ["A", "B", "C", "A", "B", "C", "A"]
