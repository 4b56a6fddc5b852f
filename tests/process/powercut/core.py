"""A workload of messages, on the core of the daemon: puts, gets and acknowledgements of clients."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.store.journal_store import JournalStore
from qmgrd.verify.verify import verify
from tests.process.powercut.recorder import Recorder
from tests.process.powercut.witness import JOURNAL_BYTES, MAP_BYTES
from tests.process.powercut.work import Fault, Work
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Manager, record

PRODUCER = b"P" * 16
SMALL, LARGE = 30, 9_000


class Known(NamedTuple):
    """The knowledge of the client: messages 1 to ``put`` are stored, except those ``settled``."""

    has_queue: bool = False
    put: int = 0
    settled: frozenset[int] = frozenset()
    has_other: bool = False


NOTHING = Known()


class CoreWork(Work):
    """Puts messages to a queue, and consumes them.

    p, l      puts one to three small messages, a large one and a small one
    g         gets and acknowledges up to three messages
    t         gets a message, and keeps it
    q         creates another queue, or deletes it
    c, s      puts messages in a turn that is a checkpoint, takes a snapshot
    r, k, x   a clean restart, a kill, a power cut
    """

    OPERATIONS: ClassVar[str] = "plgtqcsrkx"

    def __init__(self, home: Path, recorder: Recorder, random: Random) -> None:
        super().__init__(home, recorder, random)
        self.known = NOTHING
        self.witness.facts[0] = (NOTHING, NOTHING)

    def perform(self, operation: str) -> None:
        """Performs one operation, and notes what the client knows after each of its turns."""
        first, before = len(self.witness.turns), self.known
        super().perform(operation)
        if operation == "x":
            return
        for number in range(first, len(self.witness.turns)):
            self.witness.facts[number] = (before, self.known)
        if first < len(self.witness.turns):
            self.witness.facts[-1] = (self.known, self.known)

    def operations(self) -> dict[str, Callable[[], object]]:
        return super().operations() | {
            "p": lambda: self._put([SMALL] * self.random.randint(1, 3)),
            "l": lambda: self._put([LARGE, SMALL]),
            "g": self._consume,
            "t": lambda: self.client.get("Q", 1),
            "q": self._create_or_delete,
        }

    def _consume(self) -> None:
        if leases := self.client.get("Q", self.random.randint(1, 3)):
            assert self.client.ack(*leases) == []
            gone = {number_in(lease.record) for lease in leases}
            self.known = self.known._replace(settled=self.known.settled | gone)

    def _create_or_delete(self) -> None:
        if self.known.has_other:
            self.client.ask(m.QueueDelete, "R", True)
        else:
            self.client.ask(m.QueueCreate, "R")
        self.known = self.known._replace(has_other=not self.known.has_other)

    def _put(self, sizes: list[int]) -> None:
        first = self.known.put + 1
        batch = [body(first + number, size) for number, size in enumerate(sizes)]
        assert self.producer.put("Q", *(record(each) for each in batch)) == []
        self.known = self.known._replace(put=self.known.put + len(sizes))

    def started(self) -> None:
        first, possible = len(self.witness.turns), self.witness.facts[-1]
        self.manager = Manager(self.store)
        self.client = self.manager.connect("app")
        if possible is not None:  # None: the turn of a clean stop, which the client does not see
            self.known = seen_by(self.client, possible)  # A power cut may have undone turns.
        before = self.known
        if not self.known.has_queue:
            self.client.ask(m.QueueCreate, "Q")
            self.known = self.known._replace(has_queue=True)
        self.producer = self.client.producer(PRODUCER)
        for number in range(first, len(self.witness.turns)):
            self.witness.facts[number] = (before, self.known)
        self.witness.facts[-1] = (self.known, self.known)

    def stopping(self) -> None:
        self.manager.rest()
        self.manager.turns.stop(self.manager.now())


def check_core(home: Path, possible: tuple[Known, Known]) -> None:
    """Starts the core from the store in *home*, and checks that it has what a client knew.

    Raises:
        Fault: Messages are lost, doubled, damaged or in another order, or the store is damaged.
    """
    store = JournalStore(home, MAP_BYTES, JOURNAL_BYTES)
    try:
        manager = Manager(store)
        client = manager.connect("check")
        known = seen_by(client, possible)
        audit(manager)
        if known.has_queue:
            found: list[int] = []
            while leases := client.get("Q", 100):
                found += [number_in(lease.record) for lease in leases]
                assert client.ack(*leases) == []
            if found != left(known):
                raise Fault(f"the messages {found} are delivered instead of {left(known)}")
        audit(manager)
        manager.rest()
        manager.turns.stop(manager.now())
    finally:
        store.close()
    if (findings := verify(home).findings).kept:
        raise Fault(f"qmctl store verify: {findings.kept[:3]}")


def seen_by(client: Client, possible: tuple[Known, Known]) -> Known:
    """Returns what a client sees, which must be one of *possible*.

    Raises:
        Fault: It is something else.
    """
    names = {row["queue"] for row in client.ask(m.QueueList)["queues"]}
    bodies = client.browse("Q") if "Q" in names else []
    numbers = [number_in(delivery.record) for delivery in bodies]
    put = client.producer(PRODUCER).commit_id if "Q" in names else 0
    settled = frozenset(range(1, put + 1)) - frozenset(numbers)
    seen = Known("Q" in names, put, settled, "R" in names)
    if numbers != left(seen) or seen not in possible:
        raise Fault(f"a client sees {numbers}, {seen} instead of one of {possible}")
    return seen


def left(known: Known) -> list[int]:
    """Returns the messages on the queue, in order."""
    return [number for number in range(1, known.put + 1) if number not in known.settled]


def body(number: int, size: int) -> bytes:
    """Returns the body of message *number*."""
    return (b"%d:" % number + number.to_bytes(4, "big") * (size // 4))[:size]


def number_in(data: bytes) -> int:
    """Returns the number of a message, and checks that it is unchanged.

    Raises:
        Fault: It is not.
    """
    records.check(data)
    found = records.decode(data).body
    number = int(found.partition(b":")[0])
    if found not in (body(number, SMALL), body(number, LARGE)):
        raise Fault(f"message {number} is damaged")
    return number
