"""What the workloads did and were told: the account that the checkers compare the stores with.

Every put has a serial number of its own, which its body carries. So a message is known wherever it
turns up, whatever UID it has: two puts of one UID are two entries here.
"""

import struct
from dataclasses import dataclass, field

from qmgr_protocol import record as records
from qmgr_protocol.messages import ACK
from qmgr_protocol.record import Fields, Uid

SERIAL = struct.Struct(">4sQ")
MAGIC = b"SIM:"


class Violated(AssertionError):
    """An invariant does not hold. ``law`` is its name."""

    def __init__(self, law: str, fact: str) -> None:
        super().__init__(f"{law}: {fact}")
        self.law = law


def require(holds: object, law: str, fact: str) -> None:
    """Raise Violated unless *holds*."""
    if not holds:
        raise Violated(law, fact)


@dataclass(slots=True)
class Put:
    """One put of one message, and what became of it."""

    serial: int
    producer: str
    where: str  # the queue manager it was put at
    queue: str  # as named there: FLIGHTS or FLIGHTS@NYC
    priority: int
    uid: Uid | None  # what it brought
    record: bytes
    answer: str = ""  # nothing yet, "acked", or the code of the refusal
    entered: bool = False  # it was durable where it was put
    homes: int = 0  # how often it became durable on its last queue
    removed: bool = False  # it left its last queue
    trailer: bytes = b""  # its UID as stored

    @property
    def home(self) -> tuple[str, str]:
        """The queue manager and queue where it is to be got."""
        target, _, manager = self.queue.partition("@")
        return (manager or self.where, target)


@dataclass(slots=True)
class Ledger:
    """All puts, and which handles were settled how."""

    puts: list[Put] = field(default_factory=list)
    by_stream: dict[tuple[bytes, int], Put] = field(default_factory=dict)  # producer id, seq id
    acks: dict[tuple[str, int, int], set[int]] = field(default_factory=dict)  # handle: leases
    releases: set[tuple[str, int, int, int]] = field(default_factory=set)
    settled: set[tuple[str, int, int]] = field(default_factory=set)  # acks that were answered well
    purges: set[tuple[str, str]] = field(default_factory=set)  # queues that were purged
    rotten: set[tuple[str, int]] = field(default_factory=set)  # where, serial: changed on disk

    def new(
        self, producer: str, where: str, queue: str, priority: int, body_bytes: int, uid: Uid | None
    ) -> Put:
        """Return a put that is about to be made."""
        serial = len(self.puts)
        body = SERIAL.pack(MAGIC, serial) + b"%d." % serial * (body_bytes // 2)
        body = body[: max(body_bytes, SERIAL.size)]
        record = records.encode(Fields(body, priority, uid=uid))
        put = Put(serial, producer, where, queue, priority, uid, record)
        self.puts.append(put)
        return put

    def of(self, record: bytes) -> Put:
        """Return the put that *record* stems from.

        Raises:
            Violated: nobody made it.
        """
        put = self.of_body(record[records.HEAD_BYTES :])
        require(
            record[5:].startswith(put.record[5:]), "delivered_was_accepted",
            f"message {put.serial} was changed on its way",
        )  # fmt: skip
        return put

    def of_body(self, body: bytes) -> Put:
        """Return the put that a delivered *body* stems from.

        Raises:
            Violated: nobody made it.
        """
        magic, serial = SERIAL.unpack_from(body)
        known = magic == MAGIC and serial < len(self.puts)
        require(known, "delivered_was_accepted", f"{body[:60]!r} was never put")
        put: Put = self.puts[serial]
        return put

    def settles(self, action: int, handle: tuple[str, int, int], lease: int) -> None:
        """Take note that an ack or a release is sent."""
        if action == ACK:
            self.acks.setdefault(handle, set()).add(lease)
        else:
            self.releases.add((*handle, lease))

    def answered(self, put: Put, answer: str) -> None:
        """Take note of the answer to a put; it may come again, but never differ."""
        same = put.answer in ("", answer)
        fact = f"put {put.serial} of {put.producer}: {put.answer}, then {answer}"
        require(same, "answer_stays_the_same", fact)
        put.answer = answer
        if answer == "acked":
            fact = f"put {put.serial} of {put.producer}"
            require(self.entered(put), "acked_is_durable", fact)

    def entered(self, put: Put) -> bool:
        """Return whether *put* was durable; a purge in the turn of a put leaves no trace of it."""
        return put.entered or put.home in self.purges
