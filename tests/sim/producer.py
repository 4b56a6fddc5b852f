"""A producer that uses the bare protocol. It numbers puts, remembers them, and sends them again.

Unlike the production client, the producer chooses UIDs, and uses some of them twice. It repeats
puts on the same connection. Sometimes it forgets everything, like a program that is killed.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, name_of
from qmgr_protocol.record import Uid
from tests.sim.client import Client
from tests.sim.group_writer import GroupWriter
from tests.sim.lab import Lab
from tests.sim.ledger import GROUP_QUEUES, KINDS, Put, Traits, Unit, require
from tests.sim.node import Node

EXPECTED = {
    "QUEUE_FULL",
    "QUEUE_BYTES_FULL",
    "DUPLICATE_MESSAGE",
    "QUEUE_UNKNOWN",
    "STORE_FULL",
    "PRODUCERS_EXHAUSTED",
    "PUT_INHIBITED",
    "DUPLICATE_UNCOMMITTED",
}
RETENTION_SAFE_MS = 86_400_000  # No seed takes this long, unless the wall clock jumps.


@dataclass(slots=True)
class Habits:
    """The habits of a producer."""

    queues: list[str]
    total: int = 100
    batch_max: int = 10
    body_bytes_max: int = 100
    priorities: int = 3
    own_uids: bool = False
    twice: float = 0.0  # fraction of puts that are repeated without a reason
    large: float = 0.0  # fraction of bodies that exceed one row of the store
    uids: list[Uid] = field(default_factory=list)  # UIDs that the producer has chosen so far
    origin: str = "APP"
    timed: float = 0.0  # fraction of puts with a time to live, or a delay
    volatile: float = 0.0  # fraction of puts that are not persistent
    asked_for: float = 0.0  # fraction of puts that selectors of consumers match
    grouped: float = 0.0  # fraction of puts on group queues that belong to a group
    writers: dict[str, GroupWriter] = field(default_factory=dict)  # writer of groups for each queue


def new_put(
    lab: Lab, habits: Habits, producer: str, where: str, queue: str, unit: Unit | None = None
) -> Put:
    """Returns a new put according to *habits*."""
    random = lab.random
    size = random.randint(12, habits.body_bytes_max)
    if random.random() < habits.large:
        size = random.randint(3_800, 9_000)
    uid = _new_uid(lab, habits) if habits.own_uids else None
    traits = Traits(random.randrange(habits.priorities), size, uid)
    traits = _extra_traits(lab, habits, traits)
    if not habits.grouped or uid is not None or queue.partition("@")[0] not in GROUP_QUEUES:
        return lab.ledger.new(producer, where, queue, traits, lab.now_ms, unit)
    return _new_member(lab, habits, producer, where, queue, unit, traits)


def _new_member(
    lab: Lab,
    habits: Habits,
    producer: str,
    where: str,
    queue: str,
    unit: Unit | None,
    traits: Traits,
) -> Put:
    """Returns a new put that may be a member of a group."""
    if lab.random.random() >= habits.grouped:
        return lab.ledger.new(producer, where, queue, traits, lab.now_ms, unit)
    life = producer.removesuffix("/u")
    name = f"{life.rpartition('/')[0]}:{where}:{queue}"
    writer = habits.writers.setdefault(queue, GroupWriter(name))
    group, member, is_again = writer.next(lab.random, life)
    traits = traits._replace(member=member, is_again=is_again)
    put = lab.ledger.new(producer, where, queue, traits, lab.now_ms, unit)
    if is_again:
        lab.watch.unordered.add(put.home)  # A link continues after such a refusal.
    group.note(member.number, put)
    return put


def _extra_traits(lab: Lab, habits: Habits, traits: Traits) -> Traits:
    random = lab.random
    if habits.timed and random.random() < habits.timed:
        wanted = random.choice(["expiry_ms", "delay_ms", "both"])
        if wanted != "delay_ms":
            traits = traits._replace(expiry_ms=random.choice([1, 100, 3_000, 60_000, 3_600_000]))
        if wanted != "expiry_ms":
            traits = traits._replace(delay_ms=random.choice([1, 100, 3_000, 60_000]))
    if habits.volatile and random.random() < habits.volatile:
        traits = traits._replace(volatile=True)
    if habits.asked_for and random.random() < habits.asked_for:
        number, kind = random.randrange(3), random.choice(KINDS)
        traits = traits._replace(correlation_id=b"c%d" % number, kind=kind)
    return traits


def _new_uid(lab: Lab, habits: Habits) -> Uid:
    """Returns a UID: usually the next one, sometimes an earlier or a repeated one."""
    random, uids = lab.random, habits.uids
    dice = random.random()
    if uids and dice < 0.15:
        return random.choice(uids[-20:])
    last = max((uid.timestamp for uid in uids), default=10_000)
    uid = Uid(habits.origin, last + (-random.randint(1, 5_000) if dice < 0.3 else 3))
    uids.append(uid)
    return uid


def forgets(node: Node) -> bool:
    """Returns whether *node* may forget a producer within the duration of a seed."""
    limits = node.config.producer
    return limits.retention_ms < RETENTION_SAFE_MS or limits.producers_max < 100


def check_refused(lab: Lab, put: Put, code: str) -> None:
    """Checks that a refusal has a cause, and that the message was not stored."""
    has_cause = code in EXPECTED and ("DUPLICATE" not in code or put.uid is not None)
    has_cause = has_cause or lab.ledger.may_refuse(put, code)
    require(has_cause, "refusals_have_a_cause", f"put {put.serial}: {code}")
    require(not put.entered, "refused_is_not_stored", f"put {put.serial}: {code}")
    lab.ledger.answered(put, code)
    lab.watch.refusals[code] = lab.watch.refusals.get(code, 0) + 1


class Producer(Client):
    """Makes ``total`` puts. Invariant: ``open`` has the unanswered puts by id."""

    def __init__(self, lab: Lab, name: str, where: str, habits: Habits) -> None:
        super().__init__(lab, name, where)
        self.habits = habits
        self.made = 0
        self.lives = 0
        self._begin()

    def _begin(self) -> None:
        self.lives += 1
        name = f"{self.name}/{self.lives}"
        self.producer_id = hashlib.sha256(name.encode()).digest()[:16]
        self.life = name
        self.open: dict[int, Put] = {}
        self.next_seq = 1
        self.commit_id = 0
        self.stream = 0
        self.known = False  # True if this producer has already opened a stream
        self._request = 0
        self.sent_bytes: dict[int, int] = {}
        self._repeated = (0, 0)  # number of puts sent twice, and the id whose answer follows theirs

    @property
    def done(self) -> bool:
        """True if no work is left."""
        return self.made >= self.habits.total and not self.open

    @property
    def seen(self) -> int:
        """The highest id such that all answers up to it have arrived."""
        return min(self.open, default=self.next_seq) - 1

    def act(self) -> None:
        """Performs one action."""
        random = self.lab.random
        if self.wire is None:
            self.dial()
        elif self.stream and self.open and random.random() < self.habits.twice:
            self._put_again()
        elif self.stream and self.made < self.habits.total:
            self._put()

    def forget(self) -> None:
        """Crashes, and starts under a new name. The results of open puts stay unknown."""
        self.hang_up()
        self._begin()

    def _put_again(self) -> None:
        """Sends up to three pending puts again, within the window."""
        first = self.lab.random.choice(list(self.open))
        ids = [seq_id for seq_id in self.open if seq_id >= first][:3]
        if not self._repeated[0] and self.next_seq - self.commit_id + len(ids) <= self.window:
            self._repeated = (len(ids), self.next_seq)
            self._resend(ids)

    def _put(self) -> None:
        """Puts a batch on one queue, within the window."""
        random, habits = self.lab.random, self.habits
        room = self.commit_id + self.window - self.next_seq + 1 - self._repeated[0]
        room = min(room, self.seen + 2 * self.window - self.next_seq + 1)
        count = min(room, random.randint(1, habits.batch_max), habits.total - self.made)
        if count <= 0 or sum(self.sent_bytes.values()) > self.window_bytes // 2:
            return
        queue = random.choice(habits.queues)
        first = self.next_seq
        for _ in range(count):
            put = new_put(self.lab, habits, self.life, self.where, queue)
            self.lab.ledger.by_stream[self.producer_id, self.next_seq] = put
            self.open[self.next_seq] = put
            self.next_seq += 1
        self.made += count
        self._resend(list(range(first, self.next_seq)))

    def _resend(self, ids: list[int]) -> None:
        """Sends the puts of *ids* again, in runs for one queue."""
        run: list[int] = []
        for seq_id in [*ids, 0]:
            if run and (
                seq_id != run[-1] + 1 or self.open[seq_id].queue != self.open[run[0]].queue
            ):
                records = [self.open[i].record for i in run]
                self.sent_bytes |= {i: len(self.open[i].record) for i in run}
                self.send(m.Put(self.stream, run[0], self.seen, self.open[run[0]].queue, records))
                run = []
            run.append(seq_id)

    def welcomed(self, welcome: m.Welcome) -> None:
        self.window = welcome.put_window_messages
        self.window_bytes = welcome.put_window_bytes
        self._request = self.next_id()
        self.send(m.ProducerOpen(self._request, self.producer_id, self.known, self.lives))

    def took(self, message: Any) -> None:
        kind = type(message)
        if kind is m.Ok and message.request_id == self._request:
            self.known = True
            self.stream, commit_id, ahead, refused = message.value[:4]
            self._answer(commit_id, ahead, refused)
            self.sent_bytes.clear()
            self._repeated = (0, 0)
            self._resend(sorted(self.open))
        elif kind is m.Committed and message.stream == self.stream:
            self._answer(message.commit_id, [], message.refused)
        elif kind is m.Error:
            self._not_opened(message)

    def _not_opened(self, error: m.Error) -> None:
        if error.code in (ErrorCode.PRODUCERS_EXHAUSTED, ErrorCode.STORE_FULL):
            self.idle_until_ms = self.lab.now_ms + 60_000
            self.hang_up()
            return
        fact = f"{self.name} at {self.where}: {error.text}"
        lost = error.code == ErrorCode.PRODUCER_UNKNOWN and forgets(self.node)
        require(lost, "producer_is_known", fact)
        self.forget()

    def _answer(self, commit_id: int, ahead: list[int], refused: list[list[object]]) -> None:
        require(commit_id < self.next_seq, "commit_id_was_assigned", f"{commit_id} to {self.name}")
        require(commit_id >= self.commit_id, "commit_id_grows", f"{commit_id} to {self.name}")
        for seq_id, code, *_ in refused:
            assert isinstance(seq_id, int)
            assert isinstance(code, int)
            self._refused(seq_id, name_of(code))
        self.commit_id = commit_id
        if commit_id >= self._repeated[1]:
            self._repeated = (0, 0)
        for seq_id in [i for i in self.open if i <= commit_id or i in ahead]:
            self.lab.ledger.answered(self.open.pop(seq_id), "acked")
            self.sent_bytes.pop(seq_id, None)

    def _refused(self, seq_id: int, code: str) -> None:
        put = self.lab.ledger.by_stream[self.producer_id, seq_id]
        assert isinstance(put, Put)
        check_refused(self.lab, put, code)
        self.open.pop(seq_id, None)
        self.sent_bytes.pop(seq_id, None)

    def disconnected(self) -> None:
        self.stream = 0
