"""Workloads: sequences of operations, each of which is a letter, and the recording of one."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import ClassVar

from tests.process.powercut.cuts import random_state
from tests.process.powercut.disk import Disk, Tree, build, inodes_of
from tests.process.powercut.recorder import Recorder
from tests.process.powercut.witness import (
    Rows,
    Segment,
    Witness,
    WitnessedStore,
    bounds,
    kill,
    rows_of,
)


class Fault(AssertionError):
    """The store breaks a promise."""


class Work(ABC):
    """One workload on a store below ``home``, an empty directory.

    Invariant: ``segments`` has the log of each time between two power cuts, except the last.
    """

    OPERATIONS: ClassVar[str]  # the letters of all operations; random workloads prefer the first

    def __init__(self, home: Path, recorder: Recorder, random: Random) -> None:
        self.home = home
        self.random = random
        self.witness = Witness(recorder)
        self.segments: list[Segment] = []
        self._initial: Tree = {}
        self._inodes = inodes_of(home)
        self._first = 0

    @property
    def directory(self) -> Path:
        """The data directory."""
        return self.home / "qm"

    def run(self, operations: str) -> list[Segment]:
        """Performs *operations*, each on a store that is open; returns the logs."""
        recorder = self.witness.recorder
        recorder.start(self.home)
        try:
            self.store = self._opened()
            self.started()
            for operation in operations:
                self.perform(operation)
            kill(self.store)
        finally:
            log = recorder.stop()
        self.segments.append(Segment(self._initial, self._inodes, log, self._first))
        return self.segments

    def perform(self, operation: str) -> None:
        """Performs one operation."""
        self.operations()[operation]()

    def operations(self) -> dict[str, Callable[[], object]]:
        """Returns the operation of each letter."""
        return {
            "c": self.checkpoint,
            "s": self.snapshot,
            "r": self.restart,
            "k": self.crash,
            "x": self.cut,
        }

    @abstractmethod
    def started(self) -> None:
        """Begins to use a store that was just opened."""

    @abstractmethod
    def stopping(self) -> None:
        """Ends the use of a store that will be closed."""

    # -- operations that all workloads have

    def checkpoint(self) -> None:
        """Performs a put in a turn that is a checkpoint."""
        self.store.make_checkpoint_due()
        self.operations()["p"]()

    def snapshot(self) -> None:
        pin = self.store.pin()
        try:
            with Path("/dev/null").open("wb") as file:
                pin.copy_to(file.fileno())
        finally:
            pin.release()

    def restart(self) -> None:
        """Stops cleanly and starts again."""
        self.stopping()
        self.store.close()
        self.store = self._opened()
        self.started()

    def crash(self) -> None:
        """Kills and starts again."""
        kill(self.store)
        self.store = self._opened()
        self.find_turn()
        self.started()

    def find_turn(self) -> None:
        """Notes which turn the store has, if turns that were on their way may be lost."""
        if self.witness.rows != (rows := self._rows()):
            possible = range(len(self.witness.turns))
            self.witness.recovers(self._number_of(rows, possible, "a kill"))

    def cut(self) -> None:
        """Cuts the power at a random moment since the last cut, and starts again."""
        kill(self.store)
        log = self.witness.recorder.stop()
        segment = Segment(self._initial, self._inodes, log, self._first)
        self.segments.append(segment)
        disk = Disk(self.home, segment.initial, segment.inodes)
        count, self._initial = random_state(disk, segment.log, self.random)
        for path in self.home.iterdir():
            shutil.rmtree(path)
        build(self._initial, self.home)
        self._inodes = inodes_of(self.home)
        self.witness.recorder.start(self.home)
        self.store = self._opened()
        possible = bounds(segment, count)
        self.witness.recovers(self._number_of(self._rows(), possible, "a power cut"))
        self._first = len(self.witness.turns) - 1
        self.started()

    def _rows(self) -> Rows:
        tx = self.store.begin()
        rows = rows_of(tx.scan(b"", b"\xff" * 64))
        self.store.commit()
        return rows

    def _number_of(self, rows: Rows, possible: range, after: str) -> int:
        """Returns the number of the turn with *rows*, the last one if there are several."""
        for number in reversed(possible):
            if self.witness.turns[number] == rows:
                return number
        raise Fault(f"after {after}, the store has none of the turns {possible}")

    def _opened(self) -> WitnessedStore:
        return WitnessedStore(self.directory, self.witness)
