"""Performs each kind of work of a daemon, in sequence, with a ledger of the answers.

After a lost connection, the client connects again and resends unanswered requests. Acknowledged
puts must be stored once, regardless of the fault. Unanswered puts may be stored.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random
from typing import Any

from lmdb.verify import VerifyError, verify

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.snapshot.facts import describe
from qmgrd.store.image import open_image
from tests.process.daemon import Daemon, Wire

ID = b"P" * 16
WAIT_S = 20  # timeout for any answer, after which the daemon counts as hanging
SIZES = (10, 300, 3_000, 20_000, 1)
_UNSEALED = (keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_BODY)


class Fault(AssertionError):
    """Raised if the daemon breaks a promise."""


class Ended(Exception):
    """Raised if the daemon has ended, so that the work cannot continue."""


def body_of(number: int) -> bytes:
    """Returns the body of the put *number*; some bodies are long."""
    return b"%d:" % number + number.to_bytes(4, "big") * SIZES[number % len(SIZES)]


class Workload:
    """A client of one daemon.

    Invariant: puts 1 to ``answered`` are acknowledged, and puts up to ``sent`` may be stored. A
    message is in ``settled`` after its ack is acknowledged, and in ``unsure`` after its ack is
    sent.
    """

    def __init__(self, daemon: Daemon, seed: int = 0, *, fault_stays: bool = False) -> None:
        """Works on *daemon*. The seed determines the sizes and numbers of messages.

        Args:
            fault_stays: True if a refused request may be refused again.
        """
        self.daemon = daemon
        self._fault_stays = fault_stays
        self._rng = Random(seed)
        self.sent = self.answered = 0
        self.settled: set[int] = set()
        self.unsure: set[int] = set()
        self.deleted = False
        self.manifests: dict[Path, dict[str, Any]] = {}
        self.refusals: list[str] = []
        self.cuts = 0
        self._unacked: list[tuple[Any, ...]] = []
        self._wire: Wire | None = None

    def run(self, around_snapshot: Callable[[], Any] = nullcontext) -> None:
        """Works until all work is done or the daemon ends; then stops the daemon.

        Args:
            around_snapshot: A context that is entered while a snapshot is made.

        Raises:
            Fault: The daemon does not answer.
        """
        try:
            self._work(around_snapshot)
        except Ended:
            pass
        except RequestError as error:
            raise Fault(f"a request was refused: {error.text}") from error
        finally:
            self._hang_up()
        with self._patience("end"):
            self.daemon.process.wait(WAIT_S)

    # -- the work

    def _work(self, around_snapshot: Callable[[], Any]) -> None:
        self._try(lambda wire: wire.ask(m.QueueCreate, "Q"))
        self._try(lambda wire: wire.ask(m.QueueCreate, "R"))
        self._put(self._rng.randint(6, 9))
        self._take(self._rng.randint(1, 3))
        with self._another_connection():
            self._take(1)
        self._put(self._rng.randint(3, 5))
        self._snapshot(around_snapshot)
        self._take(2)
        self._delete()
        self._put(self._rng.randint(1, 4))
        self._daemon_stops()

    def _put(self, count: int) -> None:
        self.sent += count
        self._try(self._put_on)

    def _put_on(self, wire: Wire) -> None:
        """Sends the unanswered puts, as the same producer."""
        producer = wire.producer(ID)
        if not self.answered <= producer.commit_id <= self.sent:
            raise Fault(
                f"commit id {producer.commit_id}, {self.answered} puts are acknowledged and "
                f"{self.sent} sent"
            )
        first_id = self.answered + 1
        batch = [_record(number) for number in range(first_id, self.sent + 1)]
        if batch and (refused := producer.put("Q", *batch, first_id=first_id)):
            raise Fault(f"puts were refused: {refused}")
        self.answered = self.sent

    def _take(self, count: int) -> None:
        self._unacked = []
        self._try(lambda wire: self._take_on(wire, count))

    def _take_on(self, wire: Wire, count: int) -> None:
        self._unacked = self._unacked or wire.get("Q", count)
        if not self._unacked:
            raise Fault("no message is available, but messages are acknowledged")
        numbers = {_number(lease[-1]) for lease in self._unacked}
        if twice := numbers & self.settled:
            raise Fault(f"delivered after their acks were acknowledged: {sorted(twice)}")
        self.unsure |= numbers
        if lost := wire.ack(*self._unacked):
            raise Fault(f"acks were refused: {lost}")
        self.settled |= numbers

    def _snapshot(self, around: Callable[[], Any]) -> None:
        """Requests a snapshot, and tries once more if the first request fails."""
        for name, context in (("snapshot1", around), ("snapshot2", nullcontext)):
            directory = self.daemon.data_dir.parent / name

            def take(wire: Wire, directory: Path = directory) -> None:
                self.manifests[directory] = wire.ask(m.Snapshot, str(directory))

            try:
                with context():
                    self._try(take)
                return
            except RequestError as error:
                self.refusals.append(f"{ErrorCode(error.code).name}: {error.text}")
                if left := list(directory.parent.glob(f"{name}.*")):
                    raise Fault(f"left of a refused snapshot: {left}") from None
                if directory.exists():  # The snapshot is complete, and only the answer was lost.
                    manifest = json.loads((directory / "manifest.json").read_text())
                    self.manifests[directory] = manifest
        if not self._fault_stays:
            raise Fault(f"no snapshot, although the fault has ended: {self.refusals}")

    def _delete(self) -> None:
        def delete(wire: Wire) -> None:
            try:
                wire.ask(m.QueueDelete, "R", True)
            except RequestError as error:
                # The queue was deleted, but the answer was lost.
                if error.code != ErrorCode.QUEUE_UNKNOWN:
                    raise

        self._try(delete)
        self.deleted = True

    def _daemon_stops(self) -> None:
        self.daemon.process.terminate()
        assert self._wire is not None
        with suppress(EOFError, ConnectionError), self._patience("say goodbye"):
            self._wire.goodbye()

    # -- connections

    def _try(self, step: Callable[[Wire], Any]) -> Any:
        """Performs a step, and repeats it until it succeeds; returns its result."""
        while True:
            wire = self._connected()
            try:
                with self._patience("answer"):
                    return step(wire)
            except (EOFError, ConnectionError):
                self.cuts += 1
                self._hang_up()

    def _connected(self) -> Wire:
        until = time.monotonic() + WAIT_S
        while self._wire is None:
            if self.daemon.process.poll() is not None:
                raise Ended
            if time.monotonic() > until:
                raise Fault("the daemon runs but accepts no connection")
            with suppress(EOFError, ConnectionError), self._patience("shake hands"):
                self._wire = self._connect()
                return self._wire
            self.cuts += 1
            time.sleep(0.01)
        return self._wire

    def _connect(self) -> Wire:
        addresses = self.daemon.find("listening")[0]["addresses"]
        addresses = [address for address in addresses if not address.startswith("tls:")]
        wire = Wire(addresses[self.cuts % len(addresses)], WAIT_S)
        try:
            wire.send(m.Hello(m.MAGIC, 1, 1, "client", "workload"))
            wire.next(m.Welcome)
        except BaseException:
            wire.close()
            raise
        return wire

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    @contextmanager
    def _another_connection(self) -> Iterator[None]:
        before, self._wire = self._wire, None
        try:
            yield
        finally:
            if before is not None:
                before.close()

    @contextmanager
    def _patience(self, what: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise Fault(f"the daemon hangs: it did not {what} within {WAIT_S} s") from None

    # -- the checks afterwards

    def check(self) -> None:
        """Checks the store, starts the daemon once more, and balances the ledger.

        Raises:
            Fault: A message is lost, doubled or damaged.
        """
        check_store(self.daemon.data_dir / "store" / "data.mdb")
        for directory, manifest in self.manifests.items():
            check_snapshot(directory, manifest)
        self.daemon.launch()
        if not self.daemon.comes_to("listening"):
            raise Fault(f"the daemon does not start again: {self.daemon.said}")
        with self.daemon.connect() as wire:
            if self.deleted and "R" in [row["queue"] for row in wire.ask(m.QueueList)["queues"]]:
                raise Fault("queue R exists again")
            wire.ask(m.QueueCreate, "Q")
            self._put_on(wire)
            self._balance(Counter(_number(data) for data in wire.drain("Q")))
        if code := self.daemon.stop():
            raise Fault(f"the daemon stops with {code}: {self.daemon.said}")

    def _balance(self, drained: Counter[int]) -> None:
        wanted = set(range(1, self.sent + 1))
        faults = {
            "lost": wanted - drained.keys() - self.settled - self.unsure,
            "doubled": {number for number, count in drained.items() if count > 1},
            "back after an acknowledged ack": drained.keys() & self.settled,
            "never put": drained.keys() - wanted,
        }
        if any(faults.values()):
            raise Fault(", ".join(f"{what}: {sorted(x)}" for what, x in faults.items() if x))


def _record(number: int) -> bytes:
    return records.encode(records.Fields(body_of(number)))


def _number(data: bytes) -> int:
    """Returns the number of the put in *data*, and checks that the data is unchanged."""
    records.check(data)
    body = records.decode(data).body
    number = int(body.partition(b":")[0])
    if body != body_of(number):
        raise Fault(f"message {number} came out changed")
    return number


def check_store(data: Path) -> None:
    """Verifies a closed data file: LMDB's structure, each row, each record.

    Raises:
        Fault: The file is damaged.
    """
    if not data.exists():
        return  # The first run ended before the store was created.
    try:
        problems: list[str] = verify(str(data))  # type: ignore[no-untyped-call]
    except VerifyError as error:
        problems = [str(error)]
    if problems:
        raise Fault(f"{data}: {'; '.join(problems[:3])}")
    image = open_image(data)
    try:
        with image.transaction() as tx:
            for key, value in tx.scan(b"\0", b"\xff"):
                if not key.startswith(_UNSEALED):
                    rows.unseal(key, value)
                elif key.startswith(keys.SPACE_MESSAGE) and not entries.is_sound(
                    entries.record(tx, entries.decode(value))
                ):
                    raise Fault(f"{data}: the record of {key.hex()} is damaged")
    except rows.RowDamaged as error:
        raise Fault(f"{data}: {error.text}") from error
    finally:
        image.close()


def check_snapshot(directory: Path, manifest: dict[str, Any]) -> None:
    """Checks a snapshot against the manifest in the reply."""
    check_store(directory / "data.mdb")
    found = describe(directory / "data.mdb")
    if wrong := {key for key, value in found.items() if manifest[key] != value}:
        raise Fault(f"{directory} differs from its manifest: {sorted(wrong)}")
