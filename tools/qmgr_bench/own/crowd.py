"""Many subscribers to one topic, each with its own connection or all on a shared one."""

from collections.abc import Sequence

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.qmgr import CREDIT_BYTES, Wire
from qmgr_protocol import messages as m
from qmgr_protocol.topic import MARK

TOPIC, FILTER = "flights/JFK/UA", "flights/+/UA"
DESTINATION = MARK + TOPIC


def name_of(number: int) -> str:
    """Returns the name of subscription *number*."""
    return f"BENCH:s{number}"


def subscribe(host: Host, count: int) -> list[str]:
    """Creates *count* durable subscriptions and returns their names."""
    names = [name_of(number) for number in range(count)]
    with Wire(host.address, "bench.control") as wire:
        for name in names:
            wire.ask(m.Subscribe, FILTER, name)
    return names


class CrowdReceiver:
    """Consumers of many subscriptions on one connection. Each one acknowledges immediately."""

    def __init__(self, wire: Wire, names: Sequence[str], prefetch: int) -> None:
        self.sock = wire.sock
        self._wire = wire
        self._names = names
        self._prefetch = prefetch
        self._settle_id = 0
        self._settles: dict[int, int] = {}  # number of acknowledged messages, by settle id
        self._settled_id = 0

    def start(self) -> bytes:
        """Returns the requests that open the consumers."""
        send, wire = self._wire.connection.send, self._wire
        return b"".join(
            send(m.Consume(wire.next_request(), name, self._prefetch, CREDIT_BYTES))
            for name in self._names
        )

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the acks to send, and the numbers of received messages and answered acks.

        Raises:
            LoadFailed: A consumer ended, or the lease of an acknowledged message had ended.
        """
        send, acks, got, acked = self._wire.connection.send, [], 0, 0
        for message in self._wire.take(data):
            kind = type(message)
            if kind is m.Deliver:
                items = message.items
                handles = b"".join([item[: m.HANDLE.size] for item in items])
                self._settle_id += 1
                self._settles[self._settle_id] = len(items)
                got += len(items)
                acks.append(send(m.Settle(self._settle_id, m.ACK, message.queue_id, handles)))
                credit = m.Credit(message.request_id, len(items), sum(map(len, items)))
                acks.append(send(credit))
            elif kind is m.Settled and not message.exceptions:
                while self._settled_id < message.settle_id:
                    self._settled_id += 1
                    acked += self._settles.pop(self._settled_id)
            elif kind is not m.Ok:
                raise LoadFailed(f"unexpected answer for a subscriber: {str(message)[:200]}")
        return b"".join(acks), got, acked
