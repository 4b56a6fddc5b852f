"""An application in a net that uses the production client. It puts to any queue, and consumes."""

import hashlib
from typing import TYPE_CHECKING, Any

from qmgr_client.message import Message, PutResult
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import (
    Disconnected,
    Failed,
    ProducerLost,
    PutDone,
    RequestDone,
    RequestFailed,
)
from qmgr_protocol import messages as m
from tests.sim.client import REDIAL_MS
from tests.sim.ledger import DEAD_LETTERS, Put, Traits, require
from tests.sim.wire import Wire

if TYPE_CHECKING:
    from tests.sim.net import Net


class NetApp:
    """Makes ``total`` puts, and reads Q and the dead letters of its queue manager."""

    def __init__(self, net: "Net", name: str, where: str) -> None:
        random = net.random
        self.net = net
        self.name = name
        self.where = where
        self.total = random.choice([10, 60, 150])
        self.batch_max = random.choice([1, 5, 30])
        self.slow = random.choice([0, 0.3, 0.9])
        self.timed = random.choice([0, 0, 0.2])  # fraction of the puts
        self.made = 0
        self.wire: Wire | None = None
        self._lives = 0
        self._producer_id = self._new_id()
        self.core = ClientCore(name, self._producer_id)
        self._puts: dict[int, Put] = {}
        self._get = 0
        self._held: list[Message] = []
        self._idle_until_ms = 0

    def _new_id(self) -> bytes:
        self._lives += 1
        return hashlib.sha256(f"{self.name}/{self._lives}".encode()).digest()[:16]

    @property
    def done(self) -> bool:
        """True if no work is left."""
        return self.made >= self.total and not self._puts and not self._held

    def act(self) -> None:
        """Puts, gets or acks messages."""
        random = self.net.random
        if self.wire is None:
            if self.net.now_ms >= self._idle_until_ms:
                self.net.connect(self, self.net.nodes[self.where])
            return
        if self.made < self.total and random.random() < 0.5:
            self._put()
        elif self._held:
            if random.random() >= self.slow:
                for _ in range(random.randint(1, len(self._held))):
                    self.core.settle(self._held.pop(0), m.ACK)
        elif not self._get and self.net.now_ms >= self._idle_until_ms:
            for queue in ("Q", DEAD_LETTERS):
                if self.net.account.has(self.where, queue):
                    self._get = self.core.request(
                        self.net.now_ms, m.Get, queue, random.choice([1, 5, 100]), 0, 5_000, 1 << 30
                    )
                    break
        self._flush()

    def _put(self) -> None:
        """Puts a batch on a random queue."""
        random, net = self.net.random, self.net
        target = random.choice([*net.nodes, *net.circles(self.where)])
        queue = "Q" if target == self.where else f"Q@{target}"
        for _ in range(min(random.randint(1, self.batch_max), self.total - self.made)):
            is_timed = self.timed and random.random() < self.timed
            expiry_ms = random.choice([100, 3_000, 60_000]) if is_timed else 0
            traits = Traits(body_bytes=random.choice([12, 200, 900]), expiry_ms=expiry_ms)
            put = net.ledger.new(self.name, self.where, queue, traits, net.now_ms)
            self._puts[self.core.put(queue, put.record)] = put
            self.made += 1

    # -- the shell

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        self.core.connected(self.net.now_ms)
        self._flush()

    def received(self, data: bytes) -> None:
        self.core.receive(data, self.net.now_ms)
        self._flush()

    def lost(self, why: str) -> None:
        self.wire = None
        self._idle_until_ms = self.net.now_ms + REDIAL_MS
        self.core.connection_lost()
        self._flush()

    def poll(self) -> None:
        self.core.poll(self.net.now_ms)
        self._flush()

    def _flush(self) -> None:
        self._happen()
        while self.wire is not None and (data := self.core.data_to_send(self.net.now_ms)):
            self.wire.send(self, data)
        self._happen()

    def _happen(self) -> None:
        for event in self.core.events():
            self._take(event)

    def _take(self, event: Any) -> None:
        if isinstance(event, PutDone):
            put = self._puts.pop(event.ticket)
            if isinstance(event.result, PutResult):
                self.net.ledger.answered(put, "acked")
        elif isinstance(event, RequestDone | RequestFailed):
            self._get = 0
            if isinstance(event, RequestDone):
                self._held += event.value
            if isinstance(event, RequestFailed) or not event.value:
                self._idle_until_ms = self.net.now_ms + REDIAL_MS
        elif isinstance(event, ProducerLost):
            excused = self.net.account.put_back_count or self.net.hits["wall jumps"]
            require(excused, "producer_is_known", f"{self.name}: {event.error}")
            self._producer_id = self._new_id()
            self.core.renew_producer(self._producer_id)
        elif isinstance(event, Disconnected):
            self._idle_until_ms = self.net.now_ms + max(event.retry_after_ms, REDIAL_MS)
            if self.wire is not None:
                self.wire.close(self)
        elif isinstance(event, Failed):
            require(False, "peers_keep_the_protocol", f"{self.name}: {event.error}")
