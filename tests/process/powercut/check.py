"""Starts from what a power cut left, and checks the store."""

import shutil
from collections.abc import Callable
from pathlib import Path

from qmgr_config.model import DurabilityConfig
from qmgrd.store.image import faults_of_pages, open_image
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import DATA_FILE, LmdbStore
from qmgrd.store.offline import offline_store
from qmgrd.store.opening import open_store
from tests.process.powercut.disk import Tree, build
from tests.process.powercut.witness import JOURNAL_BYTES, MAP_BYTES, Rows, Witness, kill, rows_of
from tests.process.powercut.work import Fault

LEAK = "-- a leak"  # pages that LMDB lost, but that contain nothing


def check(tree: Tree, directory: Path, witness: Witness, possible: range, way: int) -> int:
    """Checks that a store in *directory* with *tree* has all rows of a possible turn.

    Returns the number of the turn. The directory exists and is emptied.

    Args:
        way: Selects the way in which the store is opened first.

    Raises:
        Fault: It has other rows, or is damaged, or cannot be opened.
    """
    for path in directory.iterdir():
        shutil.rmtree(path)
    build(tree, directory)
    home = directory / "qm"
    first = WAYS[way % len(WAYS)]
    if first is _by_two_starts and not all(witness.turns[number] for number in possible):
        first = _by_start  # In a store without rows, only the core may make the first turn.
    found = _opened(first, home, witness, possible)
    if first is not _by_start or way % 2:
        _opened(_by_start, home, witness, range(found, found + 1))
    faults = [fault for fault in faults_of_pages(home / "store" / DATA_FILE) if LEAK not in fault]
    if faults:
        raise Fault(f"LMDB's verifier: {faults[0]}")
    return found


def _opened(way: Callable[[Path], Rows], home: Path, witness: Witness, possible: range) -> int:
    """Opens the store; returns the number of its turn."""
    try:
        rows = way(home)
    except Exception as error:
        raise Fault(f"{way.__name__}: {type(error).__name__}: {error}") from error
    for number in possible:
        if witness.turns[number] == rows:
            return number
    raise Fault(f"{way.__name__}: {_difference(witness, possible, rows)}")


def _difference(witness: Witness, possible: range, rows: Rows) -> str:
    older = [number for number, turn in enumerate(witness.turns) if turn == rows]
    if older:
        return f"the store has turn {older[-1]}, but must have one of {possible}"
    wanted = witness.turns[possible[-1]]
    keys = [key.hex() for key in sorted(rows.keys() | wanted) if rows.get(key) != wanted.get(key)]
    return f"the store has no turn of {possible}; it differs from the last in {keys[:5]}"


def _rows(store: LmdbStore) -> Rows:
    tx = store.begin()
    found = rows_of(tx.scan(b"", b"\xff" * 64))
    store.commit()
    return found


def _by_start(home: Path) -> Rows:
    """As the daemon starts."""
    store = JournalStore(home, MAP_BYTES, JOURNAL_BYTES)
    try:
        return _rows(store)
    finally:
        store.close()


def _by_two_starts(home: Path) -> Rows:
    """As the daemon starts, makes a turn, is killed and starts again; the turn is then undone."""
    for number in range(4):
        store = JournalStore(home, MAP_BYTES, JOURNAL_BYTES)
        rows = _rows(store)
        if number:
            last = rows.pop(b"\x30")
            assert last == b"%d" % (number - 1), f"a turn after the power cut is lost: {last!r}"
        tx = store.begin()
        if number < 3:
            tx.put(b"\x30", b"%d" % number)
        else:
            tx.delete(b"\x30")
        store.commit()
        kill(store)
    return rows


def _without_a_journal(home: Path) -> Rows:
    """As the daemon starts if the configuration switches the journal off."""
    store = open_store(home, MAP_BYTES, DurabilityConfig(journal=False))
    try:
        return _rows(store)
    finally:
        store.close()


def _offline(home: Path) -> Rows:
    """As ``qmctl store`` reads it."""
    if not (home / "store").exists():
        return _by_start(home)
    with offline_store(home) as store:
        store.finish_journal()
        image = open_image(home / "store" / DATA_FILE)
        try:
            with image.transaction() as tx:
                return rows_of(tx.scan(b"", b"\xff" * 64))
        finally:
            image.close()


WAYS: list[Callable[[Path], Rows]] = [
    _by_start,
    _by_start,
    _by_start,
    _by_two_starts,
    _by_start,
    _by_start,
    _without_a_journal,
    _offline,
]
