"""A snapshot of a queue manager that has rows for every table. Each function adds some rows."""

from pathlib import Path
from typing import Any

from qmgr_protocol import messages as m
from qmgrd.core.layout import keys
from tests.disk_stores import disk_store
from tests.qmgr_tables.snapshots import flip_last_byte
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.core.pubsub import Hub
from tests.qmgrd.snapshot.shot import MAP_BYTES, Camera

GROUP, OTHER, ROTTEN = b"G" * 24, b"H" * 24, b"R" * 24


def make(directory: Path, name: str = "OFFICE") -> Path:
    """Returns a snapshot with links, groups, remembered UIDs, subscriptions and parked messages."""
    hub = Hub(disk_store(directory / "store", MAP_BYTES), name=name)
    try:
        links(hub.manager)
        groups(hub.manager)
        uids(hub.manager)
        subscriptions(hub)
        dead_letters(hub.manager)
        history(hub.manager)
        damage(hub.manager)
        Camera(hub.manager).take(directory / name)
    finally:
        hub.manager.store.close()
    return directory / name


def links(manager: Manager) -> None:
    """Creates a link to NYC with two messages, and a stream from FAR with a gap."""
    app = manager.connect()
    app.ask(m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "stopped": True, "ordered": True})
    app.ask(m.QueueCreate, "FLIGHTS@NYC")
    app.put("FLIGHTS@NYC", b"one", b"two")
    app.ask(m.QueueCreate, "IN")
    far = Far(manager)
    far.open()
    far.send(1, message(1), message(2), queue="IN")
    far.send(5, message(5), message(6), queue="IN")


def groups(manager: Manager) -> None:
    """Creates a group with a gap, a complete group, and a damaged group."""
    app = manager.connect()
    app.ask(m.QueueCreate, "GROUPS", {"depth_max": 1_000})
    for number in (1, 2, 3, 5):
        app.put("GROUPS", b"%d" % number, group=(GROUP, number, False))
    app.ack(*app.get("GROUPS", 2))
    manager.turn(1_000)
    app.put("GROUPS", b"a", group=(OTHER, 1, False))
    app.put("GROUPS", b"b", group=(OTHER, 2, True), delay_ms=60_000)
    app.put("GROUPS", b"x", group=(ROTTEN, 1, False))


def uids(manager: Manager) -> None:
    """Puts messages from several origins. Some are consumed and remembered."""
    app = manager.connect()
    app.ask(m.QueueCreate, "UIDS", {"dedup_retention_ms": 60_000})
    app.put_records("UIDS", *(record(b"", uid=("A", stamp)) for stamp in range(1, 301)))
    app.ack(*app.get("UIDS", 100))
    app.put_records("UIDS", *(record(b"", uid=("B", stamp)) for stamp in range(500, 510)))
    app.put_records("UIDS", record(b"", uid=("B", 505)))  # This put is refused as a duplicate.
    app.put_records("UIDS", record(b"", uid=("B", 499)))  # accepted after a lookup in the index


def subscriptions(hub: Hub) -> None:
    """Creates four subscriptions: failing, healthy, remote, and owned by a connection."""
    hub.subscribe("flights/+", "B:late", where="delay > 15", redelivery_limit=1)
    hub.subscribe("flights/#", "A:bad", redelivery_limit=0)
    hub.subscribe("flights/#", ":copy@NYC")
    hub.subscribe("other")
    hub.publish("flights/UA", b"late", envelope={"headers": {"delay": 20}})
    hub.publish("flights/UA", b"early", envelope={"headers": {"delay": 1}})
    hub.park("A:bad")


def dead_letters(manager: Manager) -> None:
    """Puts dead letters, some far apart, among messages that only failed."""
    app = manager.connect()
    app.ask(m.QueueCreate, "FAILS", {"backout_threshold": 2})
    app.put("FAILS", *(b"%d" % number for number in range(60)))
    for _ in range(2):
        app.release(*app.get("FAILS", 3))
    manager.turn(10_000)
    app.release(*app.get("FAILS", 1))
    manager.rest()


def history(manager: Manager) -> None:
    """Creates a queue with accounting."""
    app = manager.connect()
    app.ask(m.QueueCreate, "KEPT", {"accounting": "on"})
    app.put("KEPT", *(b"%d" % number for number in range(20)))
    for _ in range(5):
        app.ack(*app.get("KEPT", 3))


def damage(manager: Manager) -> None:
    """Damages rows of a group, of an origin and of an index."""
    queue = manager.queue("GROUPS").id
    flip_last_byte(manager, keys.group_row(queue, ROTTEN))
    flip_last_byte(manager, keys.of_queue(keys.SPACE_ORIGIN, manager.queue("IN").id) + b"FAR")


def by(rows: list[dict[str, Any]], *names: str) -> dict[Any, dict[str, Any]]:
    """Returns rows by one or several columns."""
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows)
    return {key[0] if len(names) == 1 else key: row for key, row in found.items()}
