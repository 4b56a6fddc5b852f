"""The ledger of the workloads: each put and each answer. Checks compare the stores with the ledger.

Each put has a unique serial number in its body, so the message is recognized everywhere, whatever
its UID. Two puts with the same UID are two entries.
"""

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.messages import ACK, DELAY_OF_QUEUE, REJECT, UNREAD
from qmgr_protocol.record import Fields, Uid

SERIAL = struct.Struct(">4sQ")
MAGIC = b"SIM:"
DEAD_LETTERS, EVENTS, BACKOUT = "SYSTEM.DEAD.LETTERS", "SYSTEM.EVENTS", "BACKOUT"
OWN = (EVENTS, "SYSTEM.AUDIT")  # queues of messages that the queue manager itself puts
HOSTILE = "H."  # prefix of the hostile clients' own queues
GROUP_QUEUES = ("GROUPS", "WORK", "LOCAL")  # queues on which groups are put
KINDS = ("a", "b", "c")  # values that selectors test
# lengths of correlation id, group flags and envelope, from byte 16 of a record on
_LENGTHS = struct.Struct(">BBH")
Holder = tuple[object, ...]  # a reader of groups: a consumer, or the reader of a connection
GroupKey = tuple[str, str, bytes]  # queue manager, queue and group id


class Violated(AssertionError):
    """Raised if an invariant does not hold. ``law`` is the name of the invariant."""

    def __init__(self, law: str, fact: str) -> None:
        super().__init__(f"{law}: {fact}")
        self.law = law


def require(holds: object, law: str, fact: str) -> None:
    """Raises Violated unless *holds* is true."""
    if not holds:
        raise Violated(law, fact)


def is_watched(queue: str) -> bool:
    """Returns whether the ledger tracks the messages on *queue*."""
    return queue not in OWN and not queue.startswith(HOSTILE)


def body_at(record: bytes) -> int:
    """Returns the offset of the body in *record*."""
    correlation, group, envelope = _LENGTHS.unpack_from(record, 16)
    delay = records.DELAY.size if record[7] & records.FLAG_DELAYED else 0
    delay += records.GROUP.size if group else 0
    return records.HEAD_BYTES + int(correlation) + delay + int(envelope)


class Member(NamedTuple):
    """The position of a message in a group."""

    group_id: bytes
    number: int
    is_last: bool


class Traits(NamedTuple):
    """The properties of a put, except its destination."""

    priority: int = 4
    body_bytes: int = 20
    uid: Uid | None = None
    expiry_ms: int = 0
    delay_ms: int = 0
    volatile: bool = False
    correlation_id: bytes = b""
    kind: str = ""
    member: Member | None = None
    is_again: bool = False  # True if the number was put before, and the result is unknown
    retained: bool = False  # True if the topic retains the message


@dataclass(slots=True)
class Put:
    """One put of one message, and its history."""

    serial: int
    producer: str
    where: str  # queue manager that received the put
    queue: str  # queue as named there: FLIGHTS or FLIGHTS@NYC
    traits: Traits
    record: bytes
    made_ms: int  # simulated time of the put
    unit: "Unit | None" = None
    # time to live on the queue of the put, set by the put or the queue; 0 = no limit
    lives_ms: int = 0
    answer: str = ""  # "" until the put is answered, then "acked" or the code of the refusal
    entered: bool = False  # True if the message was durable at the queue manager of the put
    homes: int = 0  # number of times that the message became durable on its last queue
    removed: bool = False  # True if the message left its last queue
    consumed: int = 0  # number of acks that removed the message
    fate: str = ""  # any other cause of its removal
    strayed: str = ""  # why the message was removed before it crossed its link, or ""
    wandered: bool = False  # True if the message was a dead letter
    trailer: bytes = b""  # UID as stored

    @property
    def priority(self) -> int:
        """The priority."""
        return self.traits.priority

    @property
    def uid(self) -> Uid | None:
        """The UID that the producer chose."""
        return self.traits.uid

    @property
    def home(self) -> tuple[str, str]:
        """The queue manager and queue where consumers get the message."""
        target, _, manager = self.queue.partition("@")
        return (manager or self.where, target)

    @property
    def member(self) -> Member | None:
        """The position in a group, or None."""
        return self.traits.member

    @property
    def group(self) -> GroupKey:
        """The group on the home queue. The put must be a member."""
        assert self.traits.member is not None
        return (*self.home, self.traits.member.group_id)

    def may_be_at(self, where: str, queue: str) -> bool:
        """Returns whether *queue* may deliver the message: its own, or a dead-letter queue."""
        home = self.home
        return home == (where, queue) or (home[0] == where and queue in (DEAD_LETTERS, BACKOUT))


@dataclass(slots=True, eq=False)
class Unit:
    """A unit of work, as its client knows it."""

    name: str
    where: str
    source: str  # queue from which the unit gets messages
    begun_ms: int  # store clock at the start of the unit, or earlier
    puts: list[Put] = field(default_factory=list)  # puts accepted into the unit
    # maps the handle of each message in the unit to its lease
    gets: dict[tuple[int, int], int] = field(default_factory=dict)
    ending: bool = False  # True if a commit or backout was sent, or the connection was lost
    committing: bool = False  # True if the commit was sent with the true numbers
    entered: bool = False  # True if the commit was durable
    commit: tuple[bytes, int] = (b"", 0)  # producer and id of the commit
    answer: str = ""  # "" until the commit is answered, then "acked" or the code of the refusal


@dataclass(slots=True)
class Ledger:
    """All puts and units, and the settlement of each handle."""

    puts: list[Put] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    # stream id and sequence id
    by_stream: dict[tuple[bytes, int], Put | Unit] = field(default_factory=dict)
    acks: dict[tuple[str, int, int], set[int]] = field(default_factory=dict)  # handle: leases
    # the unit of each handle and lease
    of_units: dict[tuple[str, int, int, int], Unit] = field(default_factory=dict)
    # Maps handles and leases that were released voluntarily to the requested delays.
    releases: dict[tuple[str, int, int, int], set[int]] = field(default_factory=dict)
    rejects: set[tuple[str, int, int, int]] = field(default_factory=set)
    # Handles and leases whose messages returned unseen, or whose leases had not started
    unread: set[tuple[str, int, int, int]] = field(default_factory=set)
    # Maps a handle to the leases that were released on their own connection, with an answer.
    failures: dict[tuple[str, int, int], set[int]] = field(default_factory=dict)
    # maps dead letters to their queue
    died_on: dict[tuple[str, int, int], str] = field(default_factory=dict)
    settled: set[tuple[str, int, int]] = field(default_factory=set)  # handles with successful acks
    purges: set[tuple[str, str]] = field(default_factory=set)  # purged queues
    # queues where puts may evict messages
    pushing: set[tuple[str, str]] = field(default_factory=set)
    # maps a queue to its expiry limit
    caps_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    # Consumers and gets that have a selection, by queue manager, connection and request
    selecting: set[tuple[str, int, int]] = field(default_factory=set)
    # Consumers and gets that read only complete groups, in physical order
    whole: set[tuple[str, int, int]] = field(default_factory=set)
    # place and serial of each message damaged on disk
    rotten: set[tuple[str, int]] = field(default_factory=set)
    # Consumers and gets in logical or pinned order, by the same key
    ordered: dict[tuple[str, int, int], Holder] = field(default_factory=dict)
    # Groups for which operators ordered a skip up to this number, or to the end
    skipped: dict[GroupKey, int] = field(default_factory=dict)
    closed: set[GroupKey] = field(default_factory=set)
    # Incomplete groups that expired, possibly in the same turn as their last put
    lapsed: set[GroupKey] = field(default_factory=set)
    # Messages that may have been put twice, because the program missed the first answer
    unsure: set[tuple[GroupKey, int]] = field(default_factory=set)
    # Connections of hostile clients by queue manager, to which no invariant applies
    hostile: set[tuple[str, int]] = field(default_factory=set)

    def new(
        self,
        producer: str,
        where: str,
        queue: str,
        traits: Traits,
        now_ms: int = 0,
        unit: Unit | None = None,
    ) -> Put:
        """Returns a new put, before it is sent."""
        serial = len(self.puts)
        body = SERIAL.pack(MAGIC, serial) + b"%d." % serial * (traits.body_bytes // 2)
        body = body[: max(traits.body_bytes, SERIAL.size)]
        envelope = {records.HEADERS: {"kind": traits.kind}} if traits.kind else {}
        flags = records.FLAG_NOT_PERSISTENT if traits.volatile else 0
        flags |= records.FLAG_RETAINED if traits.retained else 0
        record = records.encode(
            Fields(
                body,
                traits.priority,
                traits.correlation_id,
                envelope,
                traits.uid,
                traits.member,
                traits.expiry_ms,
                flags,
                traits.delay_ms,
            )
        )
        lives = [x for x in (traits.expiry_ms, self.caps_ms.get((where, queue), 0)) if x]
        put = Put(
            serial, producer, where, queue, traits, record, now_ms, unit, min(lives, default=0)
        )
        self.puts.append(put)
        if put.member is not None and traits.is_again:
            self.unsure.add((put.group, put.member.number))
        return put

    def may_refuse(self, put: Put, code: str) -> bool:
        """Returns whether *code* is a valid reason to refuse *put* as a message of its group."""
        if put.member is None:
            return False
        key, number = put.group, put.member.number
        is_known = (key, number) in self.unsure or number < self.skipped.get(key, 0)
        if code == "GROUP_NUMBER_TAKEN":
            return is_known
        return code == "GROUP_ENDED" and (key in self.closed or is_known)

    def of(self, record: bytes, where: str = "") -> Put:
        """Returns the put that made *record*, even if the record was damaged at *where*.

        Raises:
            Violated: No put made this record.
        """
        body = record[body_at(record) :]
        fact = f"a record of {len(record)} bytes was never put"
        require(len(body) >= SERIAL.size, "delivered_was_accepted", fact)
        _, serial = SERIAL.unpack_from(body)
        if (where, serial) in self.rotten:
            rotten: Put = self.puts[serial]
            return rotten
        put = self.of_body(body)
        require(
            record[5:].startswith(put.record[5:]),
            "delivered_was_accepted",
            f"message {put.serial} was changed in transit",
        )
        return put

    def of_body(self, body: bytes) -> Put:
        """Returns the put that made a delivered *body*.

        Raises:
            Violated: No put made this body.
        """
        magic, serial = SERIAL.unpack_from(body)
        known = magic == MAGIC and serial < len(self.puts)
        require(known, "delivered_was_accepted", f"{body[:60]!r} was never put")
        put: Put = self.puts[serial]
        return put

    def settles(
        self, action: int, handle: tuple[str, int, int], lease: int, delay_ms: int = DELAY_OF_QUEUE
    ) -> None:
        """Records that a settle was sent."""
        if action == ACK:
            self.acks.setdefault(handle, set()).add(lease)
            return
        key = (*handle, lease)
        self.releases.setdefault(key, set()).add(delay_ms)
        if action == REJECT:
            self.rejects.add(key)
        elif action == UNREAD:
            self.unread.add(key)

    def commits(self, unit: Unit, producer_id: bytes, seq_id: int) -> None:
        """Records that the commit of *unit* was sent."""
        unit.commit = (producer_id, seq_id)
        self.by_stream[producer_id, seq_id] = unit
        for (queue_id, arrival), lease in unit.gets.items():
            self.of_units[unit.where, queue_id, arrival, lease] = unit

    def answered(self, put: Put | Unit, answer: str) -> None:
        """Records the answer to a put or a commit. A repeated answer must be the same."""
        same = put.answer in ("", answer)
        fact = f"{described(put)}: {put.answer}, then {answer}"
        require(same, "answer_stays_the_same", fact)
        put.answer = answer
        if answer == "acked":
            require(self.entered(put), "acked_is_durable", described(put))

    def entered(self, put: Put | Unit) -> bool:
        """Returns whether *put* was made durable.

        A put leaves no trace if the message is purged or evicted in the turn of the put.
        """
        if put.entered or self.has_lapsed(put):
            return True
        if isinstance(put, Unit):
            own = all(self.entered(one) or one.lives_ms for one in put.puts)
            purged = (put.where, put.source) in self.purges
            return own and (not put.gets or purged)
        may_expire = put.unit is not None and put.unit.committing and put.lives_ms
        return bool(may_expire) or self.forgets(put.home)

    def has_lapsed(self, put: Put | Unit) -> bool:
        """Returns whether *put* may have expired in its own turn, together with its group."""
        if isinstance(put, Unit) or put.member is None or put.group not in self.lapsed:
            return False
        put.strayed = put.strayed or "group expired"
        return True

    def may_hide_ids(self, where: str) -> bool:
        """Returns whether a link of *where* may have ids of puts that expired when committed."""
        return any(
            unit.committing and any(put.traits.expiry_ms and "@" in put.queue for put in unit.puts)
            for unit in self.units
            if unit.where == where
        )

    def forgets(self, home: tuple[str, str]) -> bool:
        """Returns whether a put on queue *home* may be removed in the same turn."""
        return home in self.purges or home in self.pushing


def described(put: Put | Unit) -> str:
    """Returns a description of a put or a unit for a failure message."""
    if isinstance(put, Unit):
        serials = [one.serial for one in put.puts]
        return f"unit {put.name} at {put.where} of puts {serials} and gets {list(put.gets)}"
    return f"put {put.serial} of {put.producer} to {put.queue} at {put.where}"
