"""The states that a power cut may leave: the moments at which it comes, and what it keeps."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

from tests.process.powercut.disk import Change, Disk, Piece, Tree
from tests.process.powercut.recorder import Entry

FULL_MAX = 6  # pieces of which all subsets are tried
SAMPLES = 8  # random subsets of more pieces


def moments(disk: Disk, log: Sequence[Entry]) -> Iterator[int]:
    """Yields the number of entries of *log* that are on *disk*, at each moment that matters.

    It matters what is acknowledged, and what is not durable yet. Until the next flush or
    acknowledgement, the second only grows, and a subset of it may be kept. So the last moment
    before a flush, or after an acknowledgement, has all states of the moments before.
    """
    for count, entry in enumerate(log):
        if disk.flushes(entry):
            yield count
        disk.apply(entry)
        if entry.kind == "M" and entry.data.startswith(b"a"):
            yield count + 1
    yield len(log)


def states(disk: Disk, random: Random) -> Iterator[Tree]:
    """Yields contents that *disk* may have after a power cut now."""
    changes = [change for change in disk.pending() if change.pieces]
    pieces = [piece for change in changes for piece in change.pieces]
    if len(pieces) <= FULL_MAX:
        for chosen in product((False, True), repeat=len(pieces)):
            yield disk.after([piece for piece, kept in zip(pieces, chosen, strict=True) if kept])
        return
    for kept in _subsets(changes, random):
        yield disk.after([piece for piece in pieces if id(piece) in kept])


def _subsets(changes: list[Change], random: Random) -> Iterator[set[int]]:
    """Yields sets of the ids of pieces."""
    groups = [[id(piece) for piece in change.pieces] for change in changes]
    everything = {each for group in groups for each in group}
    yield set()
    yield everything
    before: set[int] = set()
    for group in groups:
        # One write is torn: all earlier ones are kept, or none, or all others.
        for cut in {1, len(group) // 2, len(group) - 1} - {0, len(group)}:
            yield before | set(group[:cut])
            yield before | set(group[cut:])
            yield everything - set(group[cut:])
        yield everything - set(group)
        yield set(group)
        before |= set(group)
        yield set(before)
    for number in range(SAMPLES):
        share = (0.5, 0.1, 0.9)[number % 3]
        if number % 2:  # whole writes
            yield {each for group in groups if random.random() < share for each in group}
        else:
            yield {each for group in groups for each in group if random.random() < share}


def random_state(disk: Disk, log: Sequence[Entry], random: Random) -> tuple[int, Tree]:
    """Returns one state after a random number of entries, which it applies, and this number."""
    count = random.randint(0, len(log)) if random.random() < 0.5 else len(log)
    for entry in log[:count]:
        disk.apply(entry)
    pieces: list[Piece] = [piece for change in disk.pending() for piece in change.pieces]
    share = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    return count, disk.after([piece for piece in pieces if random.random() < share])
