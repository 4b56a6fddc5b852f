"""Runs workloads, and checks each state that a power cut in one of them may leave."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple
from unittest.mock import patch

from qmgrd.store import flush_time, journal_store, recorded_store
from tests.process.powercut.check import check
from tests.process.powercut.core import CoreWork, check_core
from tests.process.powercut.cuts import moments, states
from tests.process.powercut.disk import Disk, Tree, digest
from tests.process.powercut.recorder import Recorder
from tests.process.powercut.rows import RowsWork
from tests.process.powercut.witness import Segment, bounds
from tests.process.powercut.work import Fault, Work

KINDS: dict[str, type[Work]] = {"rows": RowsWork, "core": CoreWork}
EXHAUSTIVE = 3  # operations of the workloads that are all tried
LONGEST = 24  # operations of a random workload
CHECKPOINT_BYTES = 8 << 10  # records between two checkpoints
CORE_STEP = 4  # The core is started from one in so many states.
FAULTS_MAX = 5
MEMORY = Path("/dev/shm")


class Case(NamedTuple):
    """A workload."""

    kind: str
    operations: str
    seed: int

    def __str__(self) -> str:
        return f"--kind {self.kind} --operations {self.operations} --seed {self.seed}"


@dataclass(slots=True)
class Result:
    """The size of a campaign, and the faults. All ``states`` are different."""

    states: int = 0
    repeated: int = 0  # states that had been checked before
    workloads: int = 0
    short: int = 0  # those of three operations
    operations: int = 0
    cuts: int = 0  # power cuts after which a workload went on
    cores: int = 0  # states from which the core was started
    faults: list[tuple[Case, str]] = field(default_factory=list)


class Campaign:
    """Checks workloads in memory, in one process that has the recorder."""

    def __init__(self) -> None:
        self.result = Result()
        self._recorder = Recorder()
        self._home = Path(tempfile.mkdtemp(prefix="powercut-", dir=MEMORY))
        # The moments and states that were checked: workloads that begin alike have the same.
        self._moments: set[int] = set()
        self._states: set[int] = set()

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._home)

    def run(self, case: Case, states_max: int) -> None:
        """Runs a workload, and checks states after power cuts, until one is faulty.

        Args:
            states_max: The number of states of the whole campaign.
        """
        for name in ("work", "state"):
            shutil.rmtree(self._home / name, ignore_errors=True)
            (self._home / name).mkdir()
        try:
            with deterministic(case):
                self._check(case, *self._recorded(case), states_max)
        except Fault as fault:
            self.result.faults.append((case, str(fault)))

    def _recorded(self, case: Case) -> tuple[Work, list[Segment]]:
        result = self.result
        work = KINDS[case.kind](self._home / "work", self._recorder, Random(str(case)))
        try:
            return work, work.run(case.operations)
        except Fault:
            raise
        except Exception as error:
            raise Fault(f"the workload fails: {type(error).__name__}: {error}") from error
        finally:
            result.workloads += 1
            result.short += len(case.operations) == EXHAUSTIVE
            result.operations += len(case.operations)
            result.cuts += len(work.segments) - 1

    def _check(self, case: Case, work: Work, segments: list[Segment], states_max: int) -> None:
        result, directory = self.result, self._home / "state"
        turns: set[int] = set()
        for way, possible, tree in self._all_states(case, segments):
            if result.states >= states_max:
                return
            key = hash((digest(tree), _turns(work, possible)))
            if key in self._states:
                result.repeated += 1
                continue
            self._states.add(key)
            result.states += 1
            turn = check(tree, directory, work.witness, possible, way)
            # The store has all rows of the turn. So the core is started once for each turn, and
            # from some of the other states.
            if case.kind == "core" and (turn not in turns or way % CORE_STEP == 0):
                turns.add(turn)
                result.cores += 1
                _check_core(directory / "qm", work.witness.facts[turn])

    def _all_states(self, case: Case, segments: list[Segment]) -> Iterator[tuple[int, range, Tree]]:
        for segment in segments:
            disk = Disk(self._home / "work", segment.initial, segment.inodes)
            prefixes = _prefixes(segment)
            for count in moments(disk, segment.log):
                if prefixes[count] in self._moments:
                    continue
                self._moments.add(prefixes[count])
                random = Random(f"{case.seed} {count}")
                for number, tree in enumerate(states(disk, random)):
                    yield count + number, bounds(segment, count), tree


def _turns(work: Work, possible: range) -> int:
    turns = work.witness.turns
    return hash(tuple(frozenset(turns[number].items()) for number in possible))


def _check_core(home: Path, facts: Any) -> None:
    try:
        check_core(home, facts)
    except Fault:
        raise
    except Exception as error:
        raise Fault(f"the core: {type(error).__name__}: {error}") from error


def _prefixes(segment: Segment) -> list[int]:
    """Returns a number for each beginning of a log."""
    files: dict[int, int] = {}
    found = [hash((digest(segment.initial), segment.first))]
    for entry in segment.log:
        file = files.setdefault(entry.inode, len(files))
        found.append(hash((found[-1], entry.kind, file, entry.offset, entry.data)))
    return found


def cases(seed: int) -> Iterator[Case]:
    """Yields workloads without end: all short ones in a random order, and random long ones."""
    random = Random(seed)
    short = ["".join(each) for each in product(RowsWork.OPERATIONS, repeat=EXHAUSTIVE)]
    random.shuffle(short)
    for number in range(1 << 60):
        for operations in short[8 * number : 8 * number + 8]:
            yield Case("rows", operations, 0)
        yield _random_case("rows", random)
        yield _random_case("core", random)


def _random_case(kind: str, random: Random) -> Case:
    alphabet = KINDS[kind].OPERATIONS
    often, length = alphabet[:3], random.randint(4, LONGEST)
    letters = [random.choice(often if random.random() < 0.5 else alphabet) for _ in range(length)]
    return Case(kind, "".join(letters), random.randrange(1 << 31))


class _Os:
    """The module os, with random bytes from a seed."""

    def __init__(self, random: Random) -> None:
        self.urandom = random.randbytes


class _Clock:
    """A clock with which each checkpoint takes the wanted time, so that its limit stays."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        self.now_s += recorded_store.CHECKPOINT_S
        return self.now_s


@contextmanager
def deterministic(case: Case) -> Iterator[None]:
    """Makes the bytes of a store depend on *case* only, and checkpoints frequent."""
    with (
        patch.object(journal_store, "os", _Os(Random(case.seed))),
        patch.object(journal_store, "time", _Clock()),
        patch.object(recorded_store, "FLUSHES", 0),
        patch.object(recorded_store, "LIMIT_LEAST_BYTES", CHECKPOINT_BYTES),
        patch.object(flush_time, "RECORD_S_PER_BYTE", 0.0),  # Each turn has a record.
    ):
        yield


def run_all(states_max: int, seed: int, minutes: float) -> Result:
    """Checks *states_max* states, or as many as *minutes* allow, until a few faults are found."""
    until_s = time.monotonic() + 60 * minutes
    with Campaign() as campaign:
        result = campaign.result
        for case in cases(seed):
            if result.states >= states_max or time.monotonic() > until_s:
                break
            if len(result.faults) >= FAULTS_MAX:
                break
            campaign.run(case, states_max)
    return result


def run_one(case: Case, states_max: int) -> Result:
    """Checks the states of a workload, up to *states_max*."""
    with Campaign() as campaign:
        campaign.run(case, states_max)
    return campaign.result
