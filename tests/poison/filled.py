"""A store with all kinds of data, as a busy queue manager leaves it.

Queue SAFE is never damaged. It must accept and deliver messages, regardless of damage to other
data.
"""

from functools import cache
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack
from qmgrd.core.broker import Broker
from qmgrd.core.jobs.job import SLICE_ROWS
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as sealed
from qmgrd.core.limits.work import WorkId
from tests.memory_store import MemoryStore
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.guarded import VERIFIER
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.pubsub import Hub
from tests.qmgrd.core.unit_of_work import UnitOfWork

SAFE, SAFE_ID = "SAFE", 1
HOUR_MS = 3_600_000
_GROUPS = [b"%024d" % number for number in range(4)]
_LONG = bytes(9_000)
_SECTIONS: dict[str, Any] = {"accounting": {"age_max_ms": 2 * HOUR_MS}}


def manager_of(store: MemoryStore) -> Manager:
    """Returns a queue manager on *store*, with the configuration of these tests."""
    return Manager(store, **_SECTIONS)


@cache
def filled() -> dict[bytes, bytes]:
    """Returns the rows of a store with all kinds of data."""
    hub = Hub(MemoryStore(), **_SECTIONS)
    manager, app = hub.manager, hub.app
    app.ask(m.QueueCreate, SAFE)
    app.put(SAFE, b"safe")
    _define(app)
    _put(app)
    _fail(app)
    _publish(hub)
    _link(manager, app)
    _leave_open(manager)
    _begin_long(manager)
    _begin_jobs(manager, app)
    _leave_unfinished(hub)
    _grant(app)
    rows: dict[bytes, bytes] = dict(manager.store.rows)
    return rows


def _begin_long(manager: Manager) -> None:
    """Sends the first piece of a long message."""
    manager.connect("long").send(m.Piece(1, 200_000, 0, bytes(m.PIECE_LEAST_BYTES)))
    manager.turn()


def _define(app: Client) -> None:
    app.ask(m.TemplateSet, "T.*", {"depth_max": 500, "backout_queue": "BACK", "lease_ms": 5_000})
    attributes = {"accounting": "on", "group_incomplete_ms": HOUR_MS, "retry_initial_ms": 1_000}
    app.ask(m.QueueCreate, "Q", attributes | {"dedup_retention_ms": HOUR_MS})
    app.ask(m.QueueCreate, "T.A", {"expiry_max_ms": 2 * HOUR_MS, "expiry_action": "dead-letter"})
    app.ask(m.QueueCreate, "BACK", {"backout_threshold": 3, "group_retention_ms": 2_000})
    app.ask(m.QueueCreate, "FULL", {"depth_max": 1, "overflow": "discard-oldest"})
    app.ask(m.QueueCreate, "TARGET", {"depth_max": 1})
    app.ask(m.QueueCreate, "REPLIES")
    app.ask(m.QueueCreate, "GONE")
    app.ask(m.QueueCreate, "SALES", {"alias_of": "Q"})
    app.ask(
        m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "connections": 2, "routes": ["SFO"]}
    )
    app.ask(m.LinkCreate, "FAR", {"addresses": [], "transit": True})
    app.ask(m.QueueCreate, "ORDERS@NYC", {"put_inhibit": False})
    app.ask(m.QueueCreate, "LATER@SFO")
    app.ask(m.QueueCreate, "ELSEWHERE", {"alias_of": "ORDERS@NYC"})
    app.ask(m.TopicSet, "flights", {"republish": "schedule", "republish_interval_ms": HOUR_MS})
    app.ask(m.TopicSet, "flights/JFK", {"redelivery_limit": 1, "put_inhibit": False})


def _grant(app: Client) -> None:
    app.ask(m.UserCreate, "admin", {"verifier": VERIFIER, "roles": ["administrator"]})
    app.ask(m.RoleCreate, "clerk")
    app.ask(m.GrantCreate, "", "clerk", ["put", "get"], "queue", "Q")
    app.ask(m.UserCreate, "bob", {"verifier": VERIFIER, "roles": ["clerk"]})
    app.ask(m.GrantCreate, "bob", "", ["publish"], "topic", "flights/#")


def _put(app: Client) -> None:
    report = {records.REPLY_TO: "REPLIES"}
    for queue in ("Q", "T.A", "BACK", "ORDERS@NYC", "LATER@SFO"):
        app.put(queue, b"plain", b"plain", priority=7)
        app.put(queue, b"keyed", correlation_id=b"key")
        app.put(queue, _LONG)
        app.put(
            queue, b"brief", expiry_ms=HOUR_MS, flags=records.FLAG_REPORT_EXPIRY, envelope=report
        )
        app.put(queue, b"late", delay_ms=HOUR_MS)
        app.put(queue, b"gone at a restart", flags=records.FLAG_NOT_PERSISTENT)
        app.put(queue, b"known", uid=("B", len(queue)))
    for queue in ("Q", "BACK"):
        for number in (1, 2, 4):
            app.put(queue, b"member", group=(_GROUPS[0], number, False))
        app.put(queue, b"whole", group=(_GROUPS[1], 1, False))
        app.put(queue, b"whole", group=(_GROUPS[1], 2, True))
        app.put(queue, b"late member", group=(_GROUPS[2], 1, True), delay_ms=HOUR_MS)
    app.put("FULL", b"1")
    app.put("TARGET", b"1")
    app.put("GONE", *[b"x"] * 40)


def _fail(app: Client) -> None:
    taken = app.get("Q", 3)
    app.ack(*taken[:2])
    app.settle(m.REJECT, *taken[2:])
    app.release(*app.get("BACK", 2))
    app.release(*app.get("Q", 1))


def _publish(hub: Hub) -> None:
    hub.subscribe("flights/#", "B:late", unused_expiry_ms=2 * HOUR_MS)
    hub.subscribe("flights/+", "B:some", where="priority > 3", depth_max=3, overflow="suspend")
    hub.subscribe("flights/JFK", "")
    hub.app.ask(m.Subscribe, "flights/#", ":over@NYC", "", {}, False)
    hub.publish("flights/JFK", b"1", b"2", retain=True)
    hub.publish("flights/JFK", _LONG, expiry_ms=HOUR_MS)
    hub.publish("flights/SFO", b"4", correlation_id=b"key")
    hub.publish("flights/SFO", b"5", group=(_GROUPS[3], 1, True))
    hub.manager.rest()
    hub.fail("B:late", 3)


def _link(manager: Manager, app: Client) -> None:
    far = Far(manager)
    far.open()
    batch = [record(b"%d" % number, uid=("FAR", number)) for number in (1, 2, 3)]
    far.send(1, *batch)
    far.send(6, record(b"6", uid=("FAR", 6)))
    far.send(8, record(b"8", uid=("FAR", 8)), queue="NOWHERE")
    app.ask(m.CursorCommit, "reports", 2)


def _leave_open(manager: Manager) -> None:
    """Leaves a producer with refused ids, a unit of work and leases open, as after a crash."""
    app = manager.connect("other")
    app.put_records("NONE", record(b"refused"))
    app.put("Q", b"1", b"2")
    unit = UnitOfWork(app)
    unit.put("Q", b"held")
    unit.get("Q", 1)
    app.get("Q", 2)


def _begin_jobs(manager: Manager, app: Client) -> None:
    app.put("REPLIES", *[b"x"] * (SLICE_ROWS + 10))
    app.ask(m.QueueMove, "REPLIES", "TARGET", "", 0, 0, False, 0)  # This job is still waiting.
    app.ask(m.QueueMove, "Q", "BACK", "", 0, 1, True, 0)  # This job has a rate limit.
    app.ask(m.QueueMove, "SYSTEM.DEAD.LETTERS", "", "", 0, 1, False, 3)
    app.ask(m.QueuePurge, "FULL")
    manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    jobs = manager.turns.broker.jobs
    queue = manager.queue("Q")

    def begin(broker: object) -> None:
        del broker
        jobs.start("retention")
        jobs.start("origins")
        jobs.start("watch", queue=queue.name, queue_id=queue.id)
        jobs.start("group", queue=queue.name, queue_id=queue.id, group=_GROUPS[1])
        jobs.start("sweep", queue=queue.name, queue_id=queue.id, first=1, before=3)
        jobs.start(
            "retained", queue="B:late", target="flights/#", queue_id=manager.queue("B:late").id
        )
        jobs.start(
            "republish",
            queue="B:late",
            queue_id=manager.queue("B:late").id,
            target="returned",
            subscriptions=["B:late"],
        )

    manager.turns.intake.event(0, begin)
    manager.turn()
    app.send(m.QueuePurge(991, "BACK", "body_bytes > 1"), m.QueueDelete(992, "GONE", True))
    manager.turn()


def _leave_unfinished(hub: Hub) -> None:
    """Leaves incomplete fan-outs, ids in flight on a link, and work that was set aside."""
    manager = hub.manager

    def leave(broker: Broker) -> None:
        context, aside = broker.context, broker.context.aside
        outbox = keys.of_queue(keys.SPACE_LINK_OUTBOX, manager.queue("@NYC").id)
        sealed.put(context.tx, outbox, pack([0, None, [(b"L" * 16, 2)]]))
        aside.add(context, WorkId("link", "FAR"), "sending over link FAR", "a test")
        aside.add(context, WorkId("row", keys.SPACE_TOPIC + b"old"), "an old row", "a test", b"row")
        aside.add(context, WorkId("due", keys.due(1, 9, 0, 4, 1)), "an old row", "a test", b"")
        context.event("anything", queue="Q")

    manager.turns.intake.event(0, leave)
    manager.turn()
    manager.turns.broker.publications.run = lambda: None  # type: ignore[method-assign]
    hub.publish("flights/JFK", b"not out", b"nor this")
