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
from typing import Any, NamedTuple
from unittest.mock import patch

from qmgrd.store import journal_store
from tests.process.powercut.check import check
from tests.process.powercut.core import CoreWork, check_core
from tests.process.powercut.cuts import SAMPLES, moments, states
from tests.process.powercut.disk import Disk, digest
from tests.process.powercut.recorder import Recorder
from tests.process.powercut.rows import RowsWork
from tests.process.powercut.witness import Segment, bounds
from tests.process.powercut.work import Fault, Work

KINDS: dict[str, type[Work]] = {"rows": RowsWork, "core": CoreWork}
EXHAUSTIVE = 3  # operations of the workloads that are all tried
LONGEST = 24  # operations of a random workload
CHECKPOINT_BYTES = 8 << 10  # records between two checkpoints
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
    """What was done. ``states`` are different, and each was checked."""

    states: int = 0
    repeated: int = 0  # states that had been checked before
    workloads: int = 0
    operations: int = 0
    cuts: int = 0  # power cuts after which a workload went on
    cores: int = 0  # states from which the core was started
    faults: list[tuple[Case, str]] = field(default_factory=list)


class Campaign:
    """Checks workloads in memory, in one process that has the recorder."""

    def __init__(self) -> None:
        self.result = Result()
        self._recorder = Recorder()
        self._seen: set[bytes] = set()

    def run(self, case: Case, states_max: int = 1 << 60, samples: int = SAMPLES) -> None:
        """Runs a workload, and checks states after power cuts, until one is faulty."""
        home = Path(tempfile.mkdtemp(prefix="powercut-", dir=MEMORY if MEMORY.exists() else None))
        try:
            with deterministic(case):
                self._run(case, home, states_max, samples)
        except Fault as fault:
            self.result.faults.append((case, str(fault)))
        finally:
            shutil.rmtree(home)

    def _run(self, case: Case, home: Path, states_max: int, samples: int) -> None:
        result, random = self.result, Random(str(case))
        for name in ("work", "state"):
            (home / name).mkdir()
        work = KINDS[case.kind](home / "work", self._recorder, random)
        try:
            segments = work.run(case.operations)
        except Fault:
            raise
        except Exception as error:
            raise Fault(f"the workload fails: {type(error).__name__}: {error}") from error
        finally:
            result.workloads += 1
            result.operations += len(case.operations)
            result.cuts += len(work.segments) - 1
        number = 0
        for segment in segments:
            for possible, tree in _states(home / "work", segment, random, samples):
                if result.states >= states_max:
                    return
                number += 1
                turns = [hash(frozenset(work.witness.turns[each].items())) for each in possible]
                key = digest(tree) + repr(turns).encode()
                if key in self._seen:
                    result.repeated += 1
                    continue
                self._seen.add(key)
                result.states += 1
                turn = check(tree, home / "state", work.witness, possible, number)
                if case.kind == "core":
                    result.cores += 1
                    _check_core(home / "state" / "qm", work.witness.facts[turn])


def _check_core(home: Path, facts: Any) -> None:
    try:
        check_core(home, facts)
    except Fault:
        raise
    except Exception as error:
        raise Fault(f"the core: {type(error).__name__}: {error}") from error


def _states(home: Path, segment: Segment, random: Random, samples: int) -> Iterator[Any]:
    disk = Disk(home, segment.initial, segment.inodes)
    for count in moments(disk, segment.log):
        possible = bounds(segment, count)
        for tree in states(disk, random, samples):
            yield possible, tree


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
        self.now_s += journal_store.CHECKPOINT_S
        return self.now_s


@contextmanager
def deterministic(case: Case) -> Iterator[None]:
    """Makes the bytes of a store depend on *case* only, and checkpoints frequent."""
    with (
        patch.object(journal_store, "os", _Os(Random(case.seed))),
        patch.object(journal_store, "time", _Clock()),
        patch.object(journal_store, "LIMIT_LEAST_BYTES", CHECKPOINT_BYTES),
    ):
        yield


def run_for(states: int, seed: int, minutes: float, faults_max: int = FAULTS_MAX) -> Result:
    """Checks *states* states, or as many as *minutes* allow, until *faults_max* faults are found."""
    campaign, until_s = Campaign(), time.monotonic() + 60 * minutes
    result = campaign.result
    for case in cases(seed):
        if result.states >= states or time.monotonic() > until_s:
            break
        if len(result.faults) >= faults_max:
            break
        campaign.run(case, states)
    return result
