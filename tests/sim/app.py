"""An application that uses the production client: qmgr_client's core in a shell like aio.py.

The application puts, consumes and gets over one connection, and records all results in the ledger.
A tap reads its frames, because the ledger needs ids and handles that the client does not expose.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qmgr_client.errors import ConnectionEnded, UnknownOutcome
from qmgr_client.message import Message, PutResult
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import (
    ConsumerEnded,
    Delivered,
    Disconnected,
    Failed,
    ProducerLost,
    PutDone,
    RequestDone,
    RequestFailed,
    SettleDone,
)
from qmgr_client.sansio.settles import PLAIN, SettleTerms
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_protocol.frame import FrameDecoder
from qmgr_protocol.layout import parse
from qmgr_protocol.record import encode_uid
from tests.sim import consumer, producer
from tests.sim.app_unit import AppUnits
from tests.sim.client import REDIAL_MS
from tests.sim.lab import Lab
from tests.sim.ledger import Put, require
from tests.sim.wire import Wire

FRAME_MAX_BYTES = 1 << 30


@dataclass(slots=True)
class Reading:
    """A message that the application is processing."""

    message: Message
    put: Put


class App:
    """An application that puts with one set of habits and reads a queue with another.

    Invariant: ``puts`` and ``settles`` map tickets to requests that have no result yet.
    """

    def __init__(
        self, lab: Lab, name: str, where: str, puts: producer.Habits, reads: consumer.Habits
    ) -> None:
        self.lab = lab
        self.name = name
        self.where = where
        self.producing = puts
        self.reading = reads
        self.wire: Wire | None = None
        self.made = 0
        self.lives = 0
        self._producers = 0
        self._begin()

    def _begin(self) -> None:
        """Starts as a new process, which does not remember the previous one."""
        self.lives += 1
        self.life = f"{self.name}/{self.lives}"
        self.producer_id = self._new_producer_id()
        coalesce = self.lab.random.random() < 0.7
        self.core = ClientCore(self.name, self.producer_id, coalesce=coalesce)
        self.puts: dict[int, Put] = {}
        self.settles: dict[int, tuple[int, Message]] = {}
        self.held: list[Reading] = []
        self.units = AppUnits(self, self.lab.random.choice([0, 0, 5, 20]))
        self.consumer = 0
        self.get = 0
        self.idle_until_ms = 0
        self._tap = FrameDecoder(FRAME_MAX_BYTES)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            PutDone: lambda event: self._put_done(self.puts.pop(event.ticket), event.result),
            SettleDone: lambda event: self._settled(*self.settles.pop(event.ticket), event.error),
            Delivered: self._delivered,
            RequestDone: lambda event: self._got(event.value),
            RequestFailed: lambda event: self._got(event.error),
            ConsumerEnded: self._consumer_ended,
            ProducerLost: self._producer_lost,
            Disconnected: self._disconnected,
            Failed: self._failed,
        }

    def _new_producer_id(self) -> bytes:
        self._producers += 1
        return hashlib.sha256(f"{self.name}:{self._producers}".encode()).digest()[:16]

    @property
    def done(self) -> bool:
        """True if no work is left."""
        made = self.made >= self.producing.total
        return made and self.units.done and not (self.puts or self.settles or self.held)

    def act(self) -> None:
        """Performs one action."""
        random, now_ms = self.lab.random, self.lab.now_ms
        if self.core.failed is not None:
            self.forget()
        elif self.wire is None:
            if now_ms >= self.idle_until_ms:
                self.lab.connect(self, self.lab.nodes[self.where])
            return
        elif self.made < self.producing.total and self.core.can_put and random.random() < 0.5:
            self._put()
        elif random.random() < 0.3 or not self.units.done:
            self.units.act()
        elif self.held and random.random() >= self.reading.slow:
            self._settle_some()
        elif not self.held:
            self._read()
        self.flush()

    def forget(self) -> None:
        """Crashes, and starts again under a new name."""
        self.units.lost()
        if self.wire is not None:
            self.wire.cut(self.lab.random)
            self.wire.flow_to(self).over = True
            self.wire = None
        self._begin()

    def hang_up(self) -> None:
        """Closes the connection. The client then dials again."""
        if self.wire is not None:
            self.wire.close(self)

    def _put(self) -> None:
        queue = self.lab.random.choice(self.producing.queues)
        for _ in range(self.lab.random.randint(1, self.producing.batch_max)):
            if self.made >= self.producing.total or not self.core.can_put:
                return
            put = producer.new_put(self.lab, self.producing, self.life, self.where, queue)
            self.made += 1
            self.puts[self.core.put(queue, put.record, put.uid)] = put

    def _read(self) -> None:
        """Keeps a consumer or a get running, and occasionally ends a consumer."""
        random, habits = self.lab.random, self.reading
        if self.lab.now_ms < self.idle_until_ms:
            return
        if habits.gets:
            if not self.get:
                wait_ms = random.choice([0, 1_000, 20_000])
                self.get = self.core.request(
                    self.lab.now_ms,
                    m.Get,
                    habits.queue,
                    habits.credit_messages,
                    wait_ms,
                    habits.lease_ms,
                    habits.credit_bytes,
                    "",
                    b"",
                    b"",
                    b"",
                    min(habits.order, m.LOGICAL),
                    habits.whole and habits.order > 0,
                    0,
                    int(habits.order > 0),
                )
        elif not self.consumer:
            self.consumer = self.core.consume(
                habits.queue,
                habits.credit_messages,
                habits.credit_bytes,
                habits.lease_ms,
                groups=(habits.order, habits.whole and habits.order > 0),
            )
        elif random.random() < habits.drop:
            self.core.cancel(self.consumer)

    def _settle_some(self) -> None:
        random, habits = self.lab.random, self.reading
        for _ in range(min(len(self.held), random.randint(1, habits.batch_max))):
            reading = self.held.pop(random.choice([0, 0, len(self.held) - 1]))
            if random.random() < habits.drop:
                continue
            action, terms = m.ACK, PLAIN
            if random.random() < habits.release:
                action = random.choice(consumer.RELEASES)
                later = action in (m.RELEASE, m.RETURN) and random.random() < habits.delay
                terms = SettleTerms(random.choice([0, 1, 500, 20_000])) if later else PLAIN
            ticket = self.core.settle(reading.message, action, terms)
            self.settles[ticket] = (action, reading.message)

    # -- the shell

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        self._tap = FrameDecoder(FRAME_MAX_BYTES)
        self.core.connected(self.lab.now_ms)
        self.flush()

    def received(self, data: bytes) -> None:
        self.core.receive(data, self.lab.now_ms)
        self.flush()

    def lost(self, why: str) -> None:
        self.wire = None
        self.units.lost()
        wait_ms = self.lab.random.choice([0, REDIAL_MS])
        self.idle_until_ms = max(self.idle_until_ms, self.lab.now_ms + wait_ms)
        self.core.connection_lost()
        self._happen()

    def poll(self) -> None:
        self.core.poll(self.lab.now_ms)
        self.flush()

    def flush(self) -> None:
        """Sends pending bytes, and handles the events that occurred."""
        self._happen()
        while self.wire is not None and (data := self.core.data_to_send(self.lab.now_ms)):
            self._listen_in(data)
            self.wire.send(self, data)
        self._happen()

    def _listen_in(self, data: bytes) -> None:
        """Records the id of each put, and each settled message, in the ledger."""
        ledger = self.lab.ledger
        self._tap.feed(data)
        for array, _ in self._tap.drain():
            message = parse(array)
            if type(message) is m.Put:
                for seq_id, record in enumerate(message.records, message.first_id):
                    put = ledger.of(record)
                    ledger.by_stream[self.producer_id, seq_id] = put
            elif isinstance(message, m.Consume | m.Get) and message.order != m.PHYSICAL:
                self._holds(message)
            elif type(message) in (m.UnitBegin, m.UnitCommit):
                self.units.heard(message, self.producer_id)
            elif type(message) is m.Settle and not message.unit:
                for _, arrival, lease in m.HANDLE.iter_unpack(message.handles):
                    handle = (self.where, message.queue_id, arrival)
                    ledger.settles(message.action, handle, lease, message.delay_ms)

    def _holds(self, message: m.Consume | m.Get) -> None:
        """Records in the ledger which readers will hold groups."""
        assert self.wire is not None
        port: Any = self.wire.flow_from(self).port
        number, reader = port.peer.number, type(message) is m.Get
        holder = (number, "reader", 1) if reader else (number, "request", message.request_id)
        self.lab.ledger.ordered[self.where, number, message.request_id] = holder

    def _happen(self) -> None:
        for event in self.core.events():
            handler = self._handlers.get(type(event))
            if handler is not None and not self.units.takes(event):
                handler(event)

    def _delivered(self, event: Delivered) -> None:
        while message := self.core.next_message(event.ticket, self.lab.now_ms):
            self._take(message)

    def _consumer_ended(self, event: ConsumerEnded) -> None:
        del event
        self.consumer = 0
        self.idle_until_ms = self.lab.now_ms + REDIAL_MS

    def _producer_lost(self, event: ProducerLost) -> None:
        forgets = producer.forgets(self.lab.nodes[self.where])
        require(forgets, "producer_is_known", f"{self.name} at {self.where}: {event.error}")
        self.producer_id = self._new_producer_id()
        self.core.renew_producer(self.producer_id)

    def _disconnected(self, event: Disconnected) -> None:
        self.idle_until_ms = self.lab.now_ms + max(event.retry_after_ms, REDIAL_MS)
        self.hang_up()

    def _failed(self, event: Failed) -> None:
        require(False, "peers_keep_the_protocol", f"{self.name}: {event.error}")

    def _put_done(self, put: Put, result: PutResult | RequestError) -> None:
        fact = f"put {put.serial} of {put.producer}: {result}"
        if isinstance(result, UnknownOutcome | ConnectionEnded):
            return
        if isinstance(result, RequestError):
            producer.check_refused(self.lab, put, name_of(result.code))
            return
        self.lab.ledger.answered(put, "acked")
        if result.uid is not None and put.trailer:
            require(encode_uid(result.uid) == put.trailer, "uid_is_as_told", fact)

    def _take(self, message: Message) -> None:
        put = self.lab.ledger.of_body(message.body)
        fact = f"message {put.serial} to {self.name}"
        require(not message.damage, "delivered_was_accepted", fact)
        known = put.may_be_at(self.where, self.reading.queue)
        require(known, "delivered_was_accepted", fact)
        self.held.append(Reading(message, put))

    def _got(self, found: list[Message] | RequestError) -> None:
        self.get = 0
        self.idle_until_ms = self.lab.now_ms + (0 if found else 1)
        if isinstance(found, RequestError):
            self.idle_until_ms = self.lab.now_ms + REDIAL_MS
            code = name_of(found.code)
            require(
                code in ("QUEUE_UNKNOWN", "QUEUE_DELETED", "GET_INHIBITED"),
                "refusals_have_a_cause",
                f"{self.name}: {found}",
            )
            return
        for message in found:
            self._take(message)

    def _settled(self, action: int, message: Message, error: RequestError | None) -> None:
        _, arrival, _ = m.HANDLE.unpack(message.handle)
        fact = f"{self.reading.queue}:{arrival} of {self.name}: {error}"
        if error is not None:
            require(error.code == ErrorCode.LEASE_LOST, "refusals_have_a_cause", fact)
        elif action == m.ACK:
            consumer.check_settled(
                self.lab, self.where, self.reading.queue, message.queue_id, arrival
            )
