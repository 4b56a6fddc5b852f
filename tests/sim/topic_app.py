"""An application that publishes and subscribes with the production client, in a world of topics.

Until the world heals, some applications fail: they release most of their messages, or forget them.
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_protocol.frame import FrameDecoder
from qmgr_protocol.layout import parse
from tests.sim import consumer
from tests.sim.client import REDIAL_MS
from tests.sim.ledger import KINDS, Member, Put, Traits, require
from tests.sim.topic_account import NOBODYS
from tests.sim.wire import Wire

if TYPE_CHECKING:
    from tests.sim.topics import TopicWorld

TOPICS = ("flights", "flights/JFK", "flights/JFK/UA", "flights/LAX/UA", "flights/LAX/AA", "weather")
REFUSALS = {"QUEUE_FULL", "QUEUE_BYTES_FULL", "STORE_FULL", "PUT_INHIBITED"}
FRAME_MAX_BYTES = 1 << 30


@dataclass(slots=True)
class Wanted:
    """The filter and name of a subscription. If unnamed, it ends with its connection.

    Without a name, the subscription ends with its connection.
    """

    topic: str
    name: str = ""
    where: str = ""
    attributes: tuple[tuple[str, Any], ...] = ()


class TopicApp:
    """Makes ``total`` publications, and may consume from one subscription.

    Invariant: the messages in ``held`` can be settled; those in ``_puts`` and ``_settles`` are
    unanswered.
    """

    def __init__(
        self, world: "TopicWorld", name: str, where: str, wanted: Wanted | None, total: int
    ) -> None:
        random = world.random
        self.world = world
        self.name = name
        self.where = where
        self.wanted = wanted
        self.total = total
        self.batch_max = random.choice([1, 5, 30])
        self.slow = random.choice([0, 0.3, 0.9])
        self.fails = random.choice([0, 0, 0.3, 0.9])  # fraction of the settles that fail
        self.forgets = random.choice([0, 0, 0.1])
        self.lease_ms = random.choice([300, 5_000, 60_000])
        self.made = self.groups = self._lives = 0
        self.wire: Wire | None = None
        self._begin()

    def _begin(self) -> None:
        """Starts as a new process."""
        self.core = ClientCore(self.name, self._new_id())
        self.held: list[Message] = []
        self.subscription = ""  # name of the subscription from which the application consumes
        self._puts: dict[int, Put] = {}
        self._settles: dict[int, Message] = {}
        self._subscribing = self._consumer = 0
        self._unit: list[Put] = []
        self._answers: list[str] = []
        self._unit_ticket = 0
        self._idle_until_ms = 0
        self._tap = FrameDecoder(FRAME_MAX_BYTES)

    def _new_id(self) -> bytes:
        self._lives += 1
        return hashlib.sha256(f"{self.name}/{self._lives}".encode()).digest()[:16]

    @property
    def done(self) -> bool:
        """True if no work is left."""
        busy = self._puts or self._settles or self.held or self._unit_ticket
        return self.made >= self.total and not busy and (self.wanted is None or self._consumer > 0)

    def act(self) -> None:
        """Publishes, settles, or manages its subscription."""
        random = self.world.random
        if self.wire is None:
            if self.world.now_ms >= self._idle_until_ms:
                self.world.connect(self, self.world.nodes[self.where])
            return
        if self.made < self.total and random.random() < 0.5:
            self._publish()
        elif self.held and (random.random() >= self.slow or self.world.is_healed):
            self._settle()
        elif self.wanted is not None and not self._consumer:
            self._subscribe(self.wanted)
        self.flush()

    # -- publishing

    def _publish(self) -> None:
        random, topic = self.world.random, "/" + self.world.random.choice(TOPICS)
        count = min(random.randint(1, self.batch_max), self.total - self.made)
        kind = random.random()
        if kind < 0.1 and not self._unit_ticket and topic != NOBODYS:
            self._unit = [self._new(topic) for _ in range(min(count, 4))]
            self._answers = []
            self.world.account.units.append((self._unit, self._answers))
            self._unit_ticket = self.core.begin_unit()
            return
        group = b""
        if kind < 0.25 and self.world.has_groups:
            self.groups += 1
            group = hashlib.sha256(f"{self.name}/{self.groups}".encode()).digest()[:24]
            count = random.randint(2, 4)
        for at in range(count):
            member = Member(group, at + 1, at + 1 == count) if group else None
            put = self._new(topic, member)
            self._puts[self.core.put(topic, put.record)] = put

    def _new(self, topic: str, member: Member | None = None) -> Put:
        random = self.world.random
        self.made += 1
        is_timed = member is None and random.random() < self.world.timed
        is_volatile = random.random() < self.world.volatile
        is_retained = member is None and random.random() < self.world.retained
        size = random.choice([12, 200, 900, 5_000 if random.random() < 0.2 else 20])
        return self.world.ledger.new(
            self.name,
            self.where,
            topic,
            Traits(
                random.choice([4, 4, 7]),
                size,
                kind=random.choice(KINDS),
                member=member,
                expiry_ms=random.choice([100, 3_000, 60_000]) if is_timed else 0,
                volatile=is_volatile,
                retained=is_retained and not is_volatile,
            ),
            self.world.now_ms,
        )

    def _put_done(self, put: Put, result: Any) -> None:
        if isinstance(result, PutResult):
            put.entered |= put.queue == NOBODYS
            self.world.ledger.answered(put, "acked")
        elif type(result) is RequestError:
            code = name_of(result.code)
            require(code in REFUSALS, "refusals_have_a_cause", f"put {put.serial}: {code}")
            require(not put.entered, "refused_is_not_stored", f"put {put.serial}: {code}")

    def _go_on(self, event: Any) -> None:
        """Performs the next step of a unit of work: begin, put or commit."""
        self._unit_ticket = 0
        if isinstance(event, PutDone):
            self._answers.append("acked" if isinstance(event.result, PutResult) else "refused")
        elif isinstance(event, RequestDone):
            try:
                if event.value is None:
                    return  # The unit was backed out.
                if type(event.value) is not list:
                    records = [(put.record, None) for put in self._unit]
                    self._own = event.value
                    self._unit_ticket = self.core.unit_put(self._own, self._unit[0].queue, records)
                elif all(isinstance(result, PutResult) for result in event.value):
                    self._unit_ticket = self.core.commit(self._own)
                    self.world.watch.happened["units committed"] += 1
                else:
                    self._unit_ticket = self.core.back_out(self._own)
            except RequestError:
                self._unit_ticket = 0

    # -- subscribing

    def _subscribe(self, wanted: Wanted) -> None:
        if not self._subscribing and self.world.now_ms >= self._idle_until_ms:
            self._subscribing = self.core.request(
                self.world.now_ms,
                m.Subscribe,
                wanted.topic,
                wanted.name,
                wanted.where,
                dict(wanted.attributes),
            )

    def _subscribed(self, event: Any) -> None:
        self._subscribing = 0
        if isinstance(event, RequestFailed):
            # An operator has altered the subscription.
            same = event.error.code == ErrorCode.SUBSCRIPTION_EXISTS
            assert self.wanted is not None
            if not same or not self.wanted.name:
                self._idle_until_ms = self.world.now_ms + REDIAL_MS
                return
        name = self.wanted.name if self.wanted is not None else ""
        self.subscription = name or event.value["subscription"]
        self._consumer = self.core.consume(self.subscription, 20, 100_000, self.lease_ms)

    def _settle(self) -> None:
        random = self.world.random
        for _ in range(random.randint(1, len(self.held))):
            message = self.held.pop(0)
            action = m.ACK
            if not self.world.is_healed:
                if random.random() < self.forgets:
                    continue
                if random.random() < self.fails:
                    action = random.choice([m.RELEASE, m.RELEASE, m.RELEASE, m.RETURN, m.REJECT])
            ticket = self.core.settle(message, action)
            if action == m.ACK:
                self._settles[ticket] = message

    def _take(self, message: Message) -> None:
        put = self.world.ledger.of_body(message.body)
        fact = f"publication {put.serial} to {self.name}: {message.topic}"
        require(message.topic == put.queue[1:], "delivered_was_accepted", fact)
        self.held.append(message)

    def _settled(self, message: Message, error: RequestError | None) -> None:
        _, arrival, _ = m.HANDLE.unpack(message.handle)
        sub = self.world.account.subs[self.where].get(message.queue_id)
        if error is None and sub is not None and not sub.has_ended:
            consumer.check_settled(self.world, self.where, sub.name, message.queue_id, arrival)

    def forget(self) -> None:
        """Crashes, and starts again."""
        if self.wire is not None:
            self.wire.cut(self.world.random)
            self.wire.flow_to(self).over = True
            self.wire = None
        self._begin()

    def hang_up(self) -> None:
        """Closes the connection, and dials again."""
        if self.wire is not None:
            self.wire.close(self)

    # -- the shell

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        self._tap = FrameDecoder(FRAME_MAX_BYTES)
        self.core.connected(self.world.now_ms)
        self.flush()

    def received(self, data: bytes) -> None:
        self.core.receive(data, self.world.now_ms)
        self.flush()

    def lost(self, why: str) -> None:
        self.wire = None
        self._idle_until_ms = self.world.now_ms + REDIAL_MS
        self.core.connection_lost()
        self.flush()

    def poll(self) -> None:
        self.core.poll(self.world.now_ms)
        self.flush()

    def flush(self) -> None:
        """Sends pending bytes, and handles the events that occurred."""
        self._happen()
        while self.wire is not None and (data := self.core.data_to_send(self.world.now_ms)):
            self._listen_in(data)
            self.wire.send(self, data)
        self._happen()

    def _listen_in(self, data: bytes) -> None:
        """Records the settled messages in the ledger."""
        self._tap.feed(data)
        for array, _ in self._tap.drain():
            message = parse(array)
            if type(message) is m.Settle:
                for _, arrival, lease in m.HANDLE.iter_unpack(message.handles):
                    handle = (self.where, message.queue_id, arrival)
                    self.world.ledger.settles(message.action, handle, lease)

    def _happen(self) -> None:
        for event in self.core.events():
            self._hear(event)

    def _hear(self, event: Any) -> None:
        ticket = getattr(event, "ticket", 0)
        if isinstance(event, Delivered):
            while message := self.core.next_message(ticket, self.world.now_ms):
                self._take(message)
        elif isinstance(event, ConsumerEnded):
            self._consumer = 0
            self._idle_until_ms = self.world.now_ms + 1
        elif ticket and ticket == self._unit_ticket:
            self._go_on(event)
        elif ticket and ticket == self._subscribing:
            self._subscribed(event)
        elif isinstance(event, PutDone):
            self._put_done(self._puts.pop(ticket), event.result)
        elif isinstance(event, SettleDone) and ticket in self._settles:
            self._settled(self._settles.pop(ticket), event.error)
        else:
            self._suffer(event)

    def _suffer(self, event: Any) -> None:
        """Handles an event that is not the result of a request."""
        if isinstance(event, ProducerLost):
            excused = self.world.hits["wall jumps"]
            require(excused, "producer_is_known", f"{self.name}: {event.error}")
            self.core.renew_producer(self._new_id())
        elif isinstance(event, Disconnected):
            self._idle_until_ms = self.world.now_ms + max(event.retry_after_ms, REDIAL_MS)
            self.hang_up()
        elif isinstance(event, Failed):
            require(False, "peers_keep_the_protocol", f"{self.name}: {event.error}")
