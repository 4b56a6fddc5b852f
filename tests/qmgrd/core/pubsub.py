"""A queue manager with topics, as seen by its applications and operators.

`Hub.subscribe` returns the name of a subscription. `publish` returns the number of matching
subscriptions for each message. `fail` makes a subscriber return its deliveries. `sound` raises if
the store has a fault.
"""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.verify.definitions import check_definitions
from qmgrd.verify.finding import Findings
from qmgrd.verify.queue import check_messages
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, Manager, record

PUBLICATIONS = "SYSTEM.PUBLICATIONS"


def faults(manager: Manager) -> list[str]:
    """Returns the faults in the store of *manager*."""
    found = Findings()
    tx = manager.store.begin()
    try:
        check_messages(found, tx, check_definitions(found, tx))
    finally:
        manager.store.abort()
    return [f"{fault.fault}: {fault.what}" for fault in found.kept]


class Hub:
    """A manager, and a client ``app`` that by default acts for all applications."""

    def __init__(self, store: AnyStore | None = None, /, **sections: Any) -> None:
        self.manager = Manager(store, **sections)
        self.app = self.manager.connect("app")
        self._published = 0

    def crash(self) -> None:
        """Clears the memory and starts again."""
        self.manager.crash()
        self._connect()

    def restart(self, away_ms: int = 0) -> None:
        """Stops cleanly and starts again."""
        self.manager.restart(away_ms)
        self._connect()

    def _connect(self) -> None:
        # A new name makes the producer a different one.
        self.app = self.manager.connect("app")

    def subscribe(
        self,
        topic: str,
        name: str = "",
        *,
        client: Client | None = None,
        where: str = "",
        retained: bool = True,
        **attributes: Any,
    ) -> str:
        """Subscribes; returns the name of the subscription."""
        row = (client or self.app).ask(m.Subscribe, topic, name, where, attributes, retained)
        return str(row["subscription"])

    def publish(self, topic: str, *bodies: bytes, retain: bool = False, **fields: Any) -> None:
        """Publishes to *topic*. No message is refused."""
        fields["flags"] = fields.get("flags", 0) | retain * records.FLAG_RETAINED
        refused = self.app.put_records(f"/{topic}", *(record(x, **fields) for x in bodies))
        assert not refused, refused

    def send(self, topic: str, *batch: bytes) -> None:
        """Publishes records without a turn."""
        if self.app._producer is None:
            self.app._producer = self.app.producer()
        producer = self.app._producer
        first_id, producer.next_id = producer.next_id, producer.next_id + len(batch)
        self.app.send(m.Put(producer.stream, first_id, 0, f"/{topic}", list(batch)))

    def get(self, name: str, count: int = 100) -> list[Delivery]:
        """Leases the messages that are available on a subscription now."""
        return self.app.get(name, count)

    def take(self, name: str, count: int = 100) -> list[bytes]:
        """Consumes the messages that are available on a subscription now; returns their bodies."""
        found = self.get(name, count)
        if found:
            assert self.app.ack(*found) == []
        return [one.body for one in found]

    def fail(self, name: str, times: int = 1) -> int:
        """Makes a subscriber return all its deliveries, *times* times; returns how many."""
        given = 0
        for _ in range(times):
            found = self.get(name)
            if not found:
                break
            given += len(found)
            assert self.app.release(*found) == []
            self.manager.rest()
        return given

    def park(self, *names: str) -> None:
        """Makes these subscriptions fail until all their messages are parked."""
        for name in names:
            assert self.fail(name, 1_000), f"{name} has no messages"

    def parked(self, **asked: Any) -> list[dict[str, Any]]:
        """Returns the rows of the parked publications."""
        given = {"after": None, "limit": 1_000, "where": "", "uid": b"", "subscription": ""}
        value = self.app.ask(m.RepublishList, *(given | asked).values())
        found: list[dict[str, Any]] = value["parked"]
        return found

    def listed(self, **asked: Any) -> list[str]:
        """Returns the subscriptions that have parked publications."""
        return [row["subscription"] for row in self.parked(**asked)]

    def republish(
        self,
        *,
        drop: bool = False,
        uid: bytes = b"",
        where: str = "",
        subscriptions: tuple[str, ...] = (),
        rate: int = 0,
        messages_max: int = 0,
    ) -> dict[str, Any]:
        """Republishes until the job ends; returns its result."""
        job = self.app.ask(m.Republish, drop, uid, where, list(subscriptions), rate, messages_max)
        self.manager.rest()
        row: dict[str, Any] = self.app.ask(m.JobShow, job["job"])
        return row

    def show(self, name: str) -> dict[str, Any]:
        """Returns the row of a subscription or a queue."""
        return self.app.show(name)

    @property
    def stored(self) -> int:
        """Returns the number of stored publications."""
        return self.manager.queue(PUBLICATIONS).counters.depth

    def holders(self) -> dict[int, int]:
        """Returns the number of holders of each publication, by arrival."""
        found = self.manager.scan(keys.SPACE_HOLDERS)
        return {
            int.from_bytes(key[1:], "big"): int.from_bytes(rows.unseal(key, row), "big")
            for key, row in found
        }

    def sound(self) -> None:
        """Raises if the store has a fault."""
        self.manager.rest()
        assert faults(self.manager) == []

    def empty(self) -> None:
        """Raises if any row of a publication remains."""
        self.sound()
        assert self.stored == 0
        assert self.holders() == {}
        for space in (keys.SPACE_PARKED, keys.SPACE_RETAINED, keys.SPACE_BODY):
            assert self.manager.scan(space) == []
        due = [keys.DUE.unpack(key)[3] for key, _ in self.manager.scan(keys.SPACE_DUE)]
        assert [lane for lane in due if lane != keys.LANE_GROUP] == []


def topic_of(delivery: Delivery) -> str:
    """Returns the topic of a delivery; "" if the message was not published."""
    if not delivery.state & m.STATE_TOPIC:
        return ""
    return delivery.tail[1 : 1 + delivery.tail[0]].decode()


def is_republished(delivery: Delivery) -> bool:
    """Returns whether a delivery was republished."""
    return bool(delivery.state & m.STATE_REPUBLISHED)


def rot(hub: Hub, arrival: int, *, whole: bool = False) -> None:
    """Changes a bit of a stored publication, or makes the whole entry unreadable."""
    tx = hub.manager.store.begin()
    key = keys.publication(arrival)
    value = bytearray(tx.get(key))
    value[-12] ^= 1
    value[0] ^= whole
    tx.put(key, bytes(value))
    hub.manager.store.commit()
