"""A consumer that uses the bare protocol. It releases messages, or acks them late, twice or never.

The consumer uses every kind of release in the protocol, sometimes with a delay. It also rejects
messages, renews leases, and may select messages.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from tests.sim import fate
from tests.sim.client import Client
from tests.sim.lab import Lab
from tests.sim.ledger import Put, require

LEASES_MS = (300, 60_000)  # durations that renewals request, in ms
READER = 1  # number of the reader that gets in logical order
RELEASES = (m.RELEASE, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT)


def check_settled(lab: Lab, where: str, queue: str, queue_id: int, arrival: int) -> None:
    """Checks that the message of a successful ack is permanently deleted."""
    view = lab.watch.views[where]
    held = view.held.get((queue_id, arrival))
    if held is not None and held.put.traits.volatile and lab.is_lost(where, queue_id, arrival):
        return  # The message was already lost at a restart, although its rows are not swept yet.
    gone = (queue_id, arrival) not in view.held or (where, queue) in lab.ledger.purges
    require(gone, "settled_is_durable", f"{queue}:{arrival} at {where}")
    lab.ledger.settled.add((where, queue_id, arrival))


class Wanted(NamedTuple):
    """The selection of a consumer: everything, or one of these fields."""

    correlation_id: bytes = b""
    kind: str = ""  # the kind that a selector selects

    @property
    def where(self) -> str:
        """The selector."""
        return f"kind = '{self.kind}'" if self.kind else ""

    def fits(self, put: Put) -> bool:
        """Returns whether the selection matches *put*."""
        same_id = self.correlation_id in (b"", put.traits.correlation_id)
        return same_id and self.kind in ("", put.traits.kind)


ANYTHING = Wanted()


@dataclass(slots=True)
class Habits:
    """The habits of a consumer."""

    queue: str
    credit_messages: int = 20
    credit_bytes: int = 100_000
    lease_ms: int = 5_000
    batch_max: int = 10
    gets: bool = False  # True if the consumer gets messages one at a time
    slow: float = 0.0  # fraction of the opportunities to settle that the consumer skips
    release: float = 0.0  # fraction of settles that are releases
    twice: float = 0.0  # fraction of settles that are sent twice
    drop: float = 0.0  # fraction of messages that the consumer forgets, so that their leases end
    renew: float = 0.0  # fraction of settles before which the consumer renews its leases
    delay: float = 0.0  # fraction of releases that have a delay
    wanted: Wanted = ANYTHING
    order: int = m.PHYSICAL  # order of delivery; for a get, pinned means logical
    whole: bool = False  # True if the consumer begins only complete groups
    later: bool = False  # True if leases start with their first renewal


class Handle(NamedTuple):
    """A delivery, identified as in a settle."""

    queue_id: int
    priority: int
    arrival: int
    lease: int


class Way(NamedTuple):
    """A method of ending a lease."""

    action: int
    delay_ms: int = m.DELAY_OF_QUEUE
    lease_ms: int = 0


ACKED = Way(m.ACK)


class Sent(NamedTuple):
    """A settle that has not been answered yet."""

    way: Way
    handles: list[Handle]
    sent_ms: int = 0  # time of a renewal, by the store clock
    is_own: bool = True  # True if the leases belong to this connection


class Consumer(Client):
    """A consumer. Invariant: ``held`` can be settled; ``unsettled`` was sent but is unanswered."""

    def __init__(self, lab: Lab, name: str, where: str, habits: Habits) -> None:
        super().__init__(lab, name, where)
        self.habits = habits
        self.held: list[Handle] = []
        self.unsettled: dict[int, Sent] = {}
        self.settles = 0
        self.request = 0
        self.credit = 0
        self.credit_bytes = 0
        self._lost: list[Sent] = []  # settles to repeat

    @property
    def done(self) -> bool:
        """True if all settles are answered."""
        return not (self.unsettled or self._lost or self.held)

    def act(self) -> None:
        """Performs one action."""
        random = self.lab.random
        if self.wire is None:
            self.dial()
        elif not self.is_open:
            return
        elif not self.request:
            if self.lab.now_ms >= self.idle_until_ms:
                self._subscribe()
        elif self.held and random.random() >= self.habits.slow:
            self._settle_some()
        elif not self.habits.gets:
            self._add_credit()

    def _subscribe(self) -> None:
        habits = self.habits
        self.request = self.next_id()
        self.credit = habits.credit_messages
        self.credit_bytes = habits.credit_bytes
        key = (self.where, self.connection_number, self.request)
        if habits.wanted is not ANYTHING and self.connection_number:
            self.lab.ledger.selecting.add(key)
        if habits.whole and habits.order == m.PHYSICAL and self.connection_number:
            self.lab.ledger.whole.add(key)
        where, correlation_id = habits.wanted.where, habits.wanted.correlation_id
        if habits.gets:
            wait_ms = self.lab.random.choice([0, 0, 1_000, 20_000])
            get = m.Get(
                self.request,
                habits.queue,
                self.credit,
                wait_ms,
                habits.lease_ms,
                self.credit_bytes,
                where,
                correlation_id,
                all_available=habits.whole,
            )
            if habits.order != m.PHYSICAL:
                get = get._replace(order=m.LOGICAL, reader=READER)
                self.holds(self.request, READER)
            self.send(get)
        else:
            if habits.order != m.PHYSICAL:
                self.holds(self.request)
            self.send(
                m.Consume(
                    self.request,
                    habits.queue,
                    self.credit,
                    self.credit_bytes,
                    habits.lease_ms,
                    where,
                    correlation_id,
                    b"",
                    habits.order,
                    habits.whole,
                    habits.later,
                )
            )

    def _settle_some(self) -> None:
        random, habits = self.lab.random, self.habits
        start = random.choice([0, 0, 0, random.randrange(len(self.held))])
        batch = self.held[start : start + random.randint(1, habits.batch_max)]
        if habits.renew and random.random() < habits.renew:
            self.settle(Way(m.RENEW, lease_ms=random.choice([0, *LEASES_MS])), batch)
            return
        del self.held[start : start + len(batch)]
        batch = [handle for handle in batch if random.random() >= habits.drop]
        way = self._way_back() if random.random() < habits.release else ACKED
        self.settle(way, batch)
        if random.random() < habits.twice:
            self.settle(way, batch)

    def _way_back(self) -> Way:
        random = self.lab.random
        action = random.choice(RELEASES)
        delay_ms = m.DELAY_OF_QUEUE
        if action in (m.RELEASE, m.RETURN) and random.random() < self.habits.delay:
            delay_ms = random.choice([0, 1, 500, 20_000])
        return Way(action, delay_ms)

    def settle(self, way: Way, handles: list[Handle], *, is_own: bool = True) -> None:
        """Settles *handles*, grouped by queue."""
        for queue_id in dict.fromkeys(handle.queue_id for handle in handles):
            own = [handle for handle in handles if handle.queue_id == queue_id]
            self.settles += 1
            sent_ms = self.node.now().ms if way.action == m.RENEW else 0
            self.unsettled[self.settles] = Sent(way, own, sent_ms, is_own)
            if way.action == m.RENEW:
                self._renews(way, own, sent_ms)
            else:
                for handle in own:
                    key = (self.where, queue_id, handle.arrival)
                    self.lab.ledger.settles(way.action, key, handle.lease, way.delay_ms)
            packed = b"".join(m.HANDLE.pack(*handle[1:]) for handle in own)
            self.send(
                m.Settle(self.settles, way.action, queue_id, packed, 0, way.delay_ms, way.lease_ms)
            )

    def _renews(self, way: Way, handles: list[Handle], sent_ms: int) -> None:
        """Records that the leases may now end at another time, which may be earlier."""
        handed = self.lab.watch.views[self.where].handed
        for handle in handles:
            known = handed[handle.queue_id, handle.arrival]
            if known.lease == handle.lease:
                known.deadline_ms = min(known.deadline_ms, sent_ms + self._renewed_ms(way))

    def _renewed_ms(self, way: Way) -> int:
        """Returns the minimum duration of a renewed lease; 0 keeps the original duration."""
        return way.lease_ms or min(LEASES_MS[0], self.habits.lease_ms)

    def _add_credit(self) -> None:
        habits = self.habits
        if self.credit > habits.credit_messages // 2 and self.credit_bytes > 0:
            return
        messages = habits.credit_messages - self.credit
        self.credit += messages
        self.credit_bytes += habits.credit_bytes
        self.send(m.Credit(self.request, messages, habits.credit_bytes))

    def welcomed(self, welcome: m.Welcome) -> None:
        for sent in self._lost:  # The repeated settles precede the credit.
            self.settle(sent.way, sent.handles, is_own=False)
        self._lost.clear()

    def took(self, message: Any) -> None:
        kind = type(message)
        if kind is m.Deliver:
            self._delivered(message)
        elif kind is m.Settled:
            self._settled(message)
        elif kind in (m.Ended, m.Error) or (kind is m.Ok and self.habits.gets):
            self.request = 0
            self.idle_until_ms = self.lab.now_ms + 1

    def _delivered(self, deliver: m.Deliver) -> None:
        for item in deliver.items:
            record = item[m.DELIVERY_BYTES :]
            record = record[: records.size_of(record)]
            put = self.lab.ledger.of(record)
            fact = f"message {put.serial} to {self.name}"
            require(self.credit > 0 and self.credit_bytes > 0, "credit_is_respected", fact)
            self.credit -= 1
            self.credit_bytes -= len(record)
            priority, arrival, lease = m.DELIVERY.unpack_from(item)[:3]
            self.held.append(Handle(deliver.queue_id, priority, arrival, lease))
            expected = (self.where, self.habits.queue)
            fact = f"{fact} from {expected}"
            require(put.may_be_at(*expected), "delivered_was_accepted", fact)
            fits = self.habits.wanted.fits(put)
            require(fits, "selected_is_what_was_asked_for", f"{fact}: {put.traits}")
        if self.habits.gets:
            self.request = 0

    def _settled(self, settled: m.Settled) -> None:
        exceptions = {(settle_id, index): code for settle_id, index, code in settled.exceptions}
        for settle_id in [i for i in self.unsettled if i <= settled.settle_id]:
            sent = self.unsettled.pop(settle_id)
            for index, handle in enumerate(sent.handles):
                code = exceptions.get((settle_id, index), 0)
                fact = f"{handle} of {self.name}: code {code}"
                require(code in (0, ErrorCode.LEASE_LOST), "refusals_have_a_cause", fact)
                if not code:
                    self._is_settled(sent, handle)

    def _is_settled(self, sent: Sent, handle: Handle) -> None:
        """Handles a successful settle."""
        ledger, key = self.lab.ledger, (self.where, handle.queue_id, handle.arrival)
        if sent.way.action == m.ACK:
            check_settled(self.lab, self.where, self.habits.queue, *key[1:])
        elif sent.way.action == m.RELEASE and sent.is_own:
            # A lease that never started may have ended, which is not a failure (seed 86).
            may_be_over = (*key, handle.lease) in ledger.unread
            if not (may_be_over or self._may_be_taken_back(handle)):
                ledger.failures.setdefault(key, set()).add(handle.lease)
        elif sent.way.action == m.RENEW:
            handed = self.lab.watch.views[self.where].handed[key[1:]]
            self.lab.watch.happened["renewed"] += 1
            later = any(other.way.action == m.RENEW for other in self.unsettled.values())
            if handed.lease == handle.lease and not later:
                deadline_ms = sent.sent_ms + self._renewed_ms(sent.way)
                handed.deadline_ms = max(deadline_ms, handed.deadline_ms)

    def _may_be_taken_back(self, handle: Handle) -> bool:
        """Returns whether a released message may have returned earlier with a preceding one."""
        if self.habits.order == m.PHYSICAL:
            return False
        place, node = (handle.queue_id, handle.arrival), self.lab.nodes[self.where]
        view = self.lab.watch.views[self.where]
        handed = view.handed.get(place)
        return (
            handed is None
            or handed.lease != handle.lease
            or fate.may_be_taken_back(self.lab.ledger, node, view, place, handed)
        )

    def disconnected(self) -> None:
        self.request = 0
        lost = [sent for sent in self.unsettled.values() if sent.way.action != m.RENEW]
        self._lost += lost
        self.unsettled.clear()
        if self.lab.random.random() < 0.5:
            # The consumer continued to work.
            self._lost += [Sent(ACKED, [handle]) for handle in self.held]
        self.held.clear()
