"""A consumer written by hand on the bare protocol: it acks late, twice or never, or gives back."""

from dataclasses import dataclass
from typing import NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from tests.sim.client import Client
from tests.sim.lab import Lab
from tests.sim.ledger import require


def check_settled(lab: Lab, where: str, queue: str, queue_id: int, arrival: int) -> None:
    """Take note of an ack that was answered well: its message must be gone for good."""
    view = lab.watch.views[where]
    gone = (queue_id, arrival) not in view.held or (where, queue) in lab.ledger.purges
    require(gone, "settled_is_durable", f"{queue}:{arrival} at {where}")
    lab.ledger.settled.add((where, queue_id, arrival))


@dataclass(slots=True)
class Habits:
    """What a consumer does."""

    queue: str
    credit_messages: int = 20
    credit_bytes: int = 100_000
    lease_ms: int = 5_000
    batch_max: int = 10
    gets: bool = False  # asks for messages one get at a time
    slow: float = 0.0  # of the times it could settle, it does not
    release: float = 0.0  # of settles that give back
    twice: float = 0.0  # of settles sent again
    drop: float = 0.0  # of messages it forgets about: their lease ends


class Handle(NamedTuple):
    """A delivery, as it is settled."""

    queue_id: int
    priority: int
    arrival: int
    lease: int


class Consumer(Client):
    """Invariant: ``held`` are deliveries it may settle; ``unsettled`` is sent and not answered."""

    def __init__(self, lab: Lab, name: str, where: str, habits: Habits) -> None:
        super().__init__(lab, name, where)
        self.habits = habits
        self.held: list[Handle] = []
        self.unsettled: dict[int, tuple[int, list[Handle]]] = {}
        self.settles = 0
        self.request = 0
        self.credit = 0
        self.credit_bytes = 0
        self._lost: list[tuple[int, list[Handle]]] = []  # to be settled again

    @property
    def done(self) -> bool:
        """Whether all that it settled is answered."""
        return not (self.unsettled or self._lost or self.held)

    def act(self) -> None:
        """Do something."""
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
        if habits.gets:
            wait_ms = self.lab.random.choice([0, 0, 1_000, 20_000])
            self.send(m.Get(self.request, habits.queue, self.credit, wait_ms, habits.lease_ms,
                            self.credit_bytes))  # fmt: skip
        else:
            self.send(m.Consume(self.request, habits.queue, self.credit, self.credit_bytes,
                                habits.lease_ms))  # fmt: skip

    def _settle_some(self) -> None:
        random, habits = self.lab.random, self.habits
        start = random.choice([0, 0, 0, random.randrange(len(self.held))])
        batch = self.held[start : start + random.randint(1, habits.batch_max)]
        del self.held[start : start + len(batch)]
        batch = [handle for handle in batch if random.random() >= habits.drop]
        action = m.RELEASE if random.random() < habits.release else m.ACK
        self.settle(action, batch)
        if random.random() < habits.twice:
            self.settle(action, batch)

    def settle(self, action: int, handles: list[Handle]) -> None:
        """Settle *handles*, each queue's together."""
        for queue_id in dict.fromkeys(handle.queue_id for handle in handles):
            own = [handle for handle in handles if handle.queue_id == queue_id]
            self.settles += 1
            self.unsettled[self.settles] = (action, own)
            for handle in own:
                key = (self.where, queue_id, handle.arrival)
                self.lab.ledger.settles(action, key, handle.lease)
            packed = b"".join(m.HANDLE.pack(*handle[1:]) for handle in own)
            self.send(m.Settle(self.settles, action, queue_id, packed))

    def _add_credit(self) -> None:
        habits = self.habits
        if self.credit > habits.credit_messages // 2 and self.credit_bytes > 0:
            return
        messages = habits.credit_messages - self.credit
        self.credit += messages
        self.credit_bytes += habits.credit_bytes
        self.send(m.Credit(self.request, messages, habits.credit_bytes))

    def welcomed(self, welcome: m.Welcome) -> None:
        for action, handles in self._lost:  # First what is owed, then credit.
            self.settle(action, handles)
        self._lost.clear()

    def took(self, message: m.Message) -> None:
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
            require(put.home == expected, "delivered_was_accepted", f"{fact} from {expected}")
        if self.habits.gets:
            self.request = 0

    def _settled(self, settled: m.Settled) -> None:
        exceptions = {(settle_id, index): code for settle_id, index, code in settled.exceptions}
        for settle_id in [i for i in self.unsettled if i <= settled.settle_id]:
            action, handles = self.unsettled.pop(settle_id)
            for index, handle in enumerate(handles):
                code = exceptions.get((settle_id, index), 0)
                fact = f"{handle} of {self.name}: code {code}"
                require(code in (0, ErrorCode.LEASE_LOST), "refusals_have_a_cause", fact)
                if action == m.ACK and not code:
                    queue, (queue_id, _, arrival, _) = self.habits.queue, handle
                    check_settled(self.lab, self.where, queue, queue_id, arrival)

    def disconnected(self) -> None:
        self.request = 0
        self._lost += self.unsettled.values()
        self.unsettled.clear()
        if self.lab.random.random() < 0.5:
            self._lost += [(m.ACK, [handle]) for handle in self.held]  # It worked on regardless.
        self.held.clear()
