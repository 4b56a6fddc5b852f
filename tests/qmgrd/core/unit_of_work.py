"""A unit of work as clients use it, and settles with all fields."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.harness import Client, Delivery, Producer, record


class UnitOfWork:
    """One unit of work of a connection. ``producer`` assigns the number of its commit."""

    def __init__(self, client: Client, number: int = 1) -> None:
        self.client = client
        self.number = number
        self.puts = self.gets = 0
        client.ask(m.UnitBegin, number)
        if client._producer is None:
            client._producer = client.producer()
        self.producer: Producer = client._producer

    def put_records(self, queue: str, *batch: bytes) -> list[ErrorCode]:
        """Puts records; returns the error codes."""
        refused, _ = self.client.ask(m.UnitPut, self.number, queue, list(batch))
        self.puts += len(batch) - len(refused)
        return [ErrorCode(code) for _, code, _ in refused]

    def put(self, queue: str, *bodies: bytes, **fields: Any) -> None:
        """Puts messages, none of which is refused."""
        assert not self.put_records(queue, *(record(body, **fields) for body in bodies))

    def take(self, *deliveries: Delivery) -> list[int]:
        """Acknowledges within the unit; returns the error codes."""
        codes = settle(self.client, m.ACK, *deliveries, unit=self.number)
        self.gets += len(deliveries) - len(codes)
        return codes

    def get(self, queue: str, count: int = 1) -> list[Delivery]:
        """Gets messages within the unit."""
        found = self.client.get(queue, count)
        if found:
            assert not self.take(*found)
        return found

    def message(self) -> m.UnitCommit:
        """Returns the commit message, which has the next id."""
        producer = self.producer
        seq_id, producer.next_id = producer.next_id, producer.next_id + 1
        return m.UnitCommit(
            producer.stream, seq_id, producer.seen, self.number, self.puts, self.gets
        )

    def commit(self) -> list[ErrorCode]:
        """Commits; returns the error codes of the commit."""
        self.client.send(self.message())
        return [found.code for found in self.producer.answer()]

    def backout(self) -> list[int]:
        """Backs out; returns how many puts and how many gets were undone."""
        value: list[int] = self.client.ask(m.UnitBackout, self.number)
        return value


def settle(client: Client, action: int, *deliveries: Delivery, **fields: Any) -> list[int]:
    """Sends a settle with all its fields; returns the error codes."""
    settle_id = client.next_id()
    handles = b"".join(delivery.handle for delivery in deliveries)
    client.send(m.Settle(settle_id, action, deliveries[0].queue_id, handles, **fields))
    answer = client._wait(lambda x: type(x) is m.Settled and x.settle_id >= settle_id)
    return [code for _, _, code in answer.exceptions]


def bodies(found: list[Delivery]) -> list[bytes]:
    """Returns the bodies of deliveries."""
    return [delivery.body for delivery in found]


def note_of(found: Delivery) -> dict[str, Any]:
    """Returns the note of a delivery, or an empty note."""
    if not found.state & m.STATE_NOTED:
        return {}
    cut = m.REMAINING.size if found.state & m.STATE_EXPIRES else 0
    note: dict[str, Any] = unpack(found.tail[cut:])
    return note
