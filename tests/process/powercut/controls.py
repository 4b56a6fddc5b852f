"""Planted faults, each of which the power-cut test must find."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import lmdb

from qmgrd.store import journal, lmdb_store
from qmgrd.store.journal import JournalFile
from qmgrd.store.journal_store import JournalStore
from tests.process.powercut.witness import WitnessedStore


class Changed:
    """A module with some names changed."""

    def __init__(self, module: Any, **names: Any) -> None:
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def journal_is_not_flushed() -> Iterator[None]:
    with patch.object(journal, "os", Changed(os, fdatasync=lambda fd: None)):
        yield


@contextmanager
def journal_is_not_flushed_every_third_time() -> Iterator[None]:
    count = 0

    def fdatasync(fd: int) -> None:
        nonlocal count
        count += 1
        if count % 3:
            os.fdatasync(fd)

    with patch.object(journal, "os", Changed(os, fdatasync=fdatasync)):
        yield


@contextmanager
def _lmdb_with(**options: bool) -> Iterator[None]:
    def opened(path: str, **given: Any) -> Any:
        return lmdb.open(path, **{**given, **options})

    with patch.object(lmdb_store, "lmdb", Changed(lmdb, open=opened)):
        yield


def store_is_not_flushed() -> AbstractContextManager[None]:
    return _lmdb_with(sync=False)


def meta_page_is_not_flushed() -> AbstractContextManager[None]:
    return _lmdb_with(metasync=False)


@contextmanager
def journal_is_reused_before_the_store_is_flushed() -> Iterator[None]:
    def checkpoint(store: Any) -> None:
        """Reuses the journal for the record of this turn, and commits later."""
        if not store._epoch:
            store._commit()
            return
        store._journal.trim(store._epoch)
        store._since_bytes = store._since_changes = 0
        assert store._is_recorded(store._waiting)
        store._commit()

    with patch.object(JournalStore, "_checkpoint", checkpoint):
        yield


@contextmanager
def records_have_no_checksum() -> Iterator[None]:
    with patch.object(journal, "crc32", lambda data, start=0: 0):
        yield


@contextmanager
def torn_record_is_valid() -> Iterator[None]:
    def content(file: Any, at: int, epoch: bytes, number: int) -> bytes | None:
        head = os.pread(file._fd, journal._HEAD_BYTES, at)
        if len(head) < journal._HEAD_BYTES:
            return None
        magic, size, found, of = journal._HEAD.unpack_from(head)
        if (magic, found, of) != (journal._MAGIC, number, epoch):
            return None
        return os.pread(file._fd, size, at + journal._HEAD_BYTES)

    with patch.object(JournalFile, "_content", content):
        yield


@contextmanager
def directory_of_the_journal_is_not_flushed() -> Iterator[None]:
    with patch.object(journal, "sync", lambda path: None):
        yield


@contextmanager
def new_store_is_not_flushed() -> Iterator[None]:
    with patch.object(lmdb_store, "sync", lambda path: None):
        yield


@contextmanager
def turn_is_acknowledged_before_its_commit() -> Iterator[None]:
    def commit(store: Any) -> None:
        if changes := list(store._open.changes):
            store.witness.tries(changes)
            store.witness.acknowledges()
        JournalStore.commit(store)

    with patch.object(WitnessedStore, "commit", commit):
        yield


@contextmanager
def turn_ahead_is_acknowledged_before_its_record() -> Iterator[None]:
    def send(store: Any) -> None:
        while store.waiting:
            store.witness.acknowledges(store.waiting.popleft()[1])

    with patch.object(WitnessedStore, "send_durable", send):
        yield


class Control(NamedTuple):
    """A planted fault, a workload that shows it, and words of the report."""

    plant: Callable[[], AbstractContextManager[None]]
    operations: str
    words: str


LOST = "but must have one of"
CONTROLS = {
    control.plant.__name__.replace("_", "-"): control
    for control in (
        Control(journal_is_not_flushed, "ppp", LOST),
        Control(journal_is_not_flushed_every_third_time, "pppp", LOST),
        Control(store_is_not_flushed, "ppc", LOST),
        Control(meta_page_is_not_flushed, "ppcp", LOST),
        Control(journal_is_reused_before_the_store_is_flushed, "ppppcpp", "is damaged or missing"),
        Control(records_have_no_checksum, "pl", "FrameMalformed"),
        Control(torn_record_is_valid, "pl", "FrameMalformed"),
        Control(directory_of_the_journal_is_not_flushed, "pp", "journal is missing"),
        Control(new_store_is_not_flushed, "pp", "StoreMissing"),
        Control(turn_is_acknowledged_before_its_commit, "pp", LOST),
        Control(turn_ahead_is_acknowledged_before_its_record, "pwn", LOST),
    )
}
