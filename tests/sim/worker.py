"""A client that uses units of work on the bare protocol. It gets from a queue, and puts on others.

    begin ──▶ get, ack in the unit, put ... ──all answered──▶ commit ──cut──▶ commit again
                                               │                │
                                               └─▶ back out     └─▶ the final answer

The worker has one unit at a time, on one stream. Sometimes it states a wrong number of steps, keeps
a unit open for too long, or loses its connection during a unit.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, name_of
from tests.sim import producer
from tests.sim.client import Client
from tests.sim.consumer import READER
from tests.sim.lab import Lab
from tests.sim.ledger import Put, Unit, described, require

COMMITTED_TWICE = 0.1
_OVER = {"UNIT_UNKNOWN", "UNIT_BACKED_OUT", "UNIT_INCOMPLETE", "STORE_FULL"}
_STEPS = {
    "QUEUE_UNKNOWN",
    "PUT_INHIBITED",
    "GET_INHIBITED",
    "UNIT_UNKNOWN",
    "QUEUE_FULL",
    "STORE_FULL",
    "QUEUE_BYTES_FULL",
    "UNIT_TOO_LARGE",
    "QUEUE_DELETED",
    "CANCELLED",
}


@dataclass(slots=True)
class Habits:
    """The habits of a worker."""

    puts: producer.Habits  # habits of its puts; their total is the number of units
    source: str
    lease_ms: int = 5_000
    steps_max: int = 5
    batch_max: int = 5
    backout: float = 0.0  # fraction of units that the worker backs out
    wrong: float = 0.0  # fraction of commits that state a wrong number of steps
    idle: float = 0.0  # fraction of the opportunities to continue that the worker skips
    order: int = m.PHYSICAL  # physical or logical


class Worker(Client):
    """A worker. Invariant: ``waits`` has the unanswered requests and settles of the unit.

    ``commit`` keeps a sent commit until it is answered, across any number of connections.
    """

    def __init__(self, lab: Lab, name: str, where: str, habits: Habits) -> None:
        super().__init__(lab, name, where)
        self.habits = habits
        self.made = 0
        self.lives = 0
        self.numbers = 0
        self._begin()

    def _begin(self) -> None:
        self.lives += 1
        self.life = f"{self.name}/{self.lives}"
        self.producer_id = hashlib.sha256(self.life.encode()).digest()[:16]
        self.next_seq = 1
        self.commit_id = 0
        self.known = False
        self.stream = 0
        self.unit: Unit | None = None
        self.number = 0
        self.steps = 0
        self.commit: tuple[Unit, int, m.UnitCommit] | None = None
        self.waits: dict[tuple[str, int], Any] = {}
        self._opening = 0
        self._reads = False  # True if the reader may be in a group

    @property
    def done(self) -> bool:
        """True if no work is left."""
        return self.unit is None and self.commit is None and self.made >= self.habits.puts.total

    def act(self) -> None:
        """Performs one action."""
        random = self.lab.random
        if self.wire is None:
            self.dial()
        elif not self.stream or self.commit is not None or self.waits:
            return
        elif self.unit is None:
            if self.made < self.habits.puts.total:
                self._begin_unit()
            elif self._reads:
                self._close_reader()
        elif random.random() >= self.habits.idle:
            self._go_on(self.unit)

    def forget(self) -> None:
        """Crashes, and starts under a new name. The results of open requests stay unknown."""
        self.hang_up()
        self._over()
        self._begin()

    def _begin_unit(self) -> None:
        random = self.lab.random
        self.made += 1
        self.numbers += 1
        self.number = self.numbers
        name = f"{self.life}.{self.number}"
        self.unit = Unit(name, self.where, self.habits.source, self.node.now().ms)
        self.lab.ledger.units.append(self.unit)
        self.steps = random.randint(0, self.habits.steps_max)
        self._ask("begin", m.UnitBegin, self.number)
        if self.steps and random.random() < 0.5:
            self._step(self.unit)  # The answer to UnitBegin contains no information.

    def _go_on(self, unit: Unit) -> None:
        random = self.lab.random
        if self.steps > 0:
            self._step(unit)
        elif random.random() < self.habits.backout:
            unit.ending = True
            self._ask("backout", m.UnitBackout, self.number)
        else:
            self._commit(unit)

    def _step(self, unit: Unit) -> None:
        random, habits = self.lab.random, self.habits
        self.steps -= 1
        if random.random() < 0.5:
            count = random.randint(1, habits.batch_max)
            self._get(count)
            return
        queue = random.choice(habits.puts.queues)
        puts = [
            producer.new_put(self.lab, habits.puts, self.life, self.where, queue, unit)
            for _ in range(random.randint(1, habits.batch_max))
        ]
        self._ask("put", m.UnitPut, self.number, queue, [put.record for put in puts], about=puts)

    def _get(self, count: int) -> None:
        habits, request_id = self.habits, self.next_id()
        get = m.Get(request_id, habits.source, count, 0, habits.lease_ms, 1 << 20)
        if habits.order == m.LOGICAL:
            get = get._replace(order=m.LOGICAL, reader=READER)
            self.holds(request_id, READER)
            self._reads = True
        self.waits["get", request_id] = None
        self.send(get)

    def _close_reader(self) -> None:
        """Closes the reader, and leaves its current group to other readers."""
        self._reads = False
        self.send(m.ReaderClose(self.next_id(), READER))

    def _ask(self, what: str, kind: Any, *fields: Any, about: Any = None) -> None:
        request_id = self.next_id()
        self.waits[what, request_id] = about
        self.send(kind(request_id, *fields))

    def _commit(self, unit: Unit) -> None:
        random = self.lab.random
        unit.ending = True
        wrong = random.random() < self.habits.wrong
        unit.committing = not wrong
        message = m.UnitCommit(
            0, self.next_seq, self.next_seq - 1, self.number, len(unit.puts) + wrong, len(unit.gets)
        )
        self.lab.ledger.commits(unit, self.producer_id, self.next_seq)
        self.commit = (unit, self.next_seq, message)
        self.unit = None
        self.next_seq += 1
        self._send_commit()
        if random.random() < COMMITTED_TWICE:
            self.lab.watch.happened["commits resent"] += 1
            self._send_commit()

    def _send_commit(self) -> None:
        assert self.commit is not None
        self.send(self.commit[2]._replace(stream=self.stream))

    def welcomed(self, welcome: m.Welcome) -> None:
        self._opening = self.next_id()
        self.send(m.ProducerOpen(self._opening, self.producer_id, self.known, self.lives))

    def took(self, message: Any) -> None:
        kind = type(message)
        if kind is m.Deliver:
            self._got(message)
        elif kind is m.Settled:
            self._settled(message)
        elif kind is m.Committed:
            self._answered(message.commit_id, message.refused)
        elif kind in (m.Ok, m.Error) and message.request_id == self._opening:
            self._opened(message)
        elif kind in (m.Ok, m.Error, m.Ended):
            self._done(message)

    def _opened(self, message: Any) -> None:
        if type(message) is m.Error:
            if message.code in (ErrorCode.PRODUCERS_EXHAUSTED, ErrorCode.STORE_FULL):
                self.idle_until_ms = self.lab.now_ms + 60_000
                self.hang_up()
                return
            lost = message.code == ErrorCode.PRODUCER_UNKNOWN and producer.forgets(self.node)
            require(lost, "producer_is_known", f"{self.name} at {self.where}: {message.text}")
            self.forget()
            return
        self.known = True
        self.stream, commit_id, _, refused = message.value[:4]
        self._answered(commit_id, refused)
        if self.commit is not None:
            self.lab.watch.happened["commits resent"] += 1
            self._send_commit()

    def _answered(self, commit_id: int, refused: list[list[Any]]) -> None:
        require(self.commit_id <= commit_id, "commit_id_grows", f"{commit_id} to {self.name}")
        known = commit_id < self.next_seq
        require(known, "commit_id_was_assigned", f"{commit_id} to {self.name}")
        self.commit_id = commit_id
        codes = {seq_id: code for seq_id, code, *_ in refused}
        if self.commit is None or self.commit[1] > commit_id:
            return
        unit, seq_id, _ = self.commit
        self.commit = None
        happened = self.lab.watch.happened
        if seq_id in codes:
            code = name_of(codes[seq_id])
            fact = f"{described(unit)}: {code}"
            require(code in _OVER, "refusals_have_a_cause", fact)
            self.lab.ledger.answered(unit, code)
            happened["units refused"] += 1
            if code == "STORE_FULL":  # The unit is still open.
                self._ask("backout", m.UnitBackout, self.number)
            return
        fact = f"{described(unit)} sent other counts"
        require(unit.committing, "unit_is_all_or_nothing", fact)
        self.lab.ledger.answered(unit, "acked")
        for put in unit.puts:
            if not put.entered and put.lives_ms:
                put.strayed = "expired"  # The message expired in the turn of the commit, unseen.
            self.lab.ledger.answered(put, "acked")
        happened["units committed"] += 1
        happened["units over queues"] += bool(unit.puts and unit.gets)

    def _done(self, message: Any) -> None:
        """Handles the answer to a request of the unit."""
        found = next((key for key in self.waits if key[1] == message.request_id), None)
        if found is None:
            return
        about, what = self.waits.pop(found), found[0]
        if type(message) is m.Ok:
            if what == "put":
                self._held(about, message.value[0])
            elif what == "backout":
                self._over("backed out")
            return
        code = name_of(message.code)
        fact = f"{what} of {self.name}: {message.text}"
        require(code in _STEPS, "refusals_have_a_cause", fact)
        if what == "put":
            self._held(about, [[index, message.code] for index in range(len(about))])
        elif what == "backout":
            self._over("backed out")

    def _held(self, puts: list[Put], refused: list[list[Any]]) -> None:
        """Handles the results of puts. Some are in the unit; others were refused immediately."""
        codes = {index: name_of(code) for index, code, *_ in refused}
        for index, put in enumerate(puts):
            if index in codes:
                code = codes[index]
                has_cause = code in _STEPS or self.lab.ledger.may_refuse(put, code)
                require(has_cause, "refusals_have_a_cause", f"{described(put)}: {codes[index]}")
                self.lab.ledger.answered(put, codes[index])
            elif self.unit is not None:
                self.unit.puts.append(put)

    def _got(self, deliver: m.Deliver) -> None:
        """Acks the delivered messages as part of the unit."""
        self.waits.pop(("get", deliver.request_id), None)
        handles = []
        for item in deliver.items:
            record = item[m.DELIVERY_BYTES :]
            put = self.lab.ledger.of(record[: records.size_of(record)])
            fact = f"message {put.serial} to {self.name}"
            known = put.may_be_at(self.where, self.habits.source)
            require(known, "delivered_was_accepted", fact)
            priority, arrival, lease = m.DELIVERY.unpack_from(item)[:3]
            handles.append((priority, arrival, lease))
        if self.unit is None:
            return
        view = self.lab.watch.views[self.where]
        for _, arrival, lease in handles:
            view.offer((deliver.queue_id, arrival), lease, self.unit)
        settle_id = self.next_id()
        self.waits["settle", settle_id] = (deliver.queue_id, handles)
        packed = b"".join(m.HANDLE.pack(*handle) for handle in handles)
        self.send(m.Settle(settle_id, m.ACK, deliver.queue_id, packed, self.number))

    def _settled(self, settled: m.Settled) -> None:
        exceptions = {(settle_id, index): code for settle_id, index, code in settled.exceptions}
        answered = [x for x in self.waits if x[0] == "settle" and x[1] <= settled.settle_id]
        for key in answered:
            queue_id, handles = self.waits.pop(key)
            for index, (_, arrival, lease) in enumerate(handles):
                code = exceptions.get((key[1], index), 0)
                if code:
                    known = name_of(code) in {"LEASE_LOST", "UNIT_UNKNOWN", "UNIT_TOO_LARGE"}
                    require(known, "refusals_have_a_cause", f"{self.name}: {name_of(code)}")
                elif self.unit is not None:
                    self._took_in(self.unit, queue_id, arrival, lease)

    def _took_in(self, unit: Unit, queue_id: int, arrival: int, lease: int) -> None:
        unit.gets[queue_id, arrival] = lease
        handed = self.lab.watch.views[self.where].handed.get((queue_id, arrival))
        if handed is not None and handed.lease == lease:
            handed.unit = unit

    def _over(self, how: str = "lost") -> None:
        """Records that the unit ended without effect."""
        if self.unit is not None:
            self.unit.ending = True
            self.unit.answer = how
            self.unit = None
            self.lab.watch.happened[f"units {how}"] += 1

    def disconnected(self) -> None:
        self.stream = 0
        self._reads = False
        self.waits.clear()
        self._over()
