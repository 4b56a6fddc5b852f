"""Snapshots of a manager under test, with functions that wait for their results."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Any

from qmgrd.snapshot.snapshot import SnapshotFailed, Snapshotter
from qmgrd.store.image import open_image
from qmgrd.store.lmdb_store import LmdbStore
from tests.disk_stores import disk_store
from tests.qmgrd.core.harness import Manager

WAIT_S = 60
MAP_BYTES = 1 << 30
WRITER = b"qmgrd.snapshot.writer"


class Camera:
    """Takes snapshots of a manager, and acts as the event loop for the answers."""

    def __init__(self, manager: Manager, **limits: Any) -> None:
        self.manager = manager
        self.calls: Queue[Callable[[], None]] = Queue()
        self.results: list[dict[str, Any] | SnapshotFailed] = []
        self.snapshotter = Snapshotter(manager.store, self.calls.put, **limits)

    def start(self, directory: Path | str) -> None:
        """Begins a snapshot of the last turn."""
        turn = self.manager.turns.broker.context.turn_number
        self.snapshotter.start(str(directory), turn, self.results.append)

    def wait(self) -> dict[str, Any] | SnapshotFailed:
        """Returns the result of the snapshot."""
        self.calls.get(timeout=WAIT_S)()
        return self.results.pop()

    def take(self, directory: Path | str) -> dict[str, Any]:
        """Takes a snapshot and returns its manifest."""
        self.start(directory)
        result = self.wait()
        assert isinstance(result, dict), result
        return result

    def fail(self, directory: Path | str) -> str:
        """Takes a snapshot that fails; returns the reason."""
        self.start(directory)
        result = self.wait()
        assert isinstance(result, SnapshotFailed), result
        assert "\n" not in result.text
        return result.text


@contextmanager
def managed(
    directory: Path, name: str = "QM1", make: Callable[[Path, int], LmdbStore] = disk_store
) -> Iterator[Manager]:
    """Yields a manager with a store on disk."""
    manager = Manager(make(directory, MAP_BYTES), name=name)
    yield manager
    manager.store.close()


def rows_of(data: Path) -> dict[bytes, bytes]:
    """Returns all rows of a data file that no process has open."""
    image = open_image(data)
    with image.transaction() as tx:
        found = dict(tx.scan(b"", b"\xff" * 200))
    image.close()
    return found


def writers() -> list[int]:
    """Returns the child processes that write a snapshot."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # The process has just ended.
            parent = int(status.read_text().rpartition(") ")[2].split()[1])
            if parent == os.getpid() and WRITER in (status.parent / "cmdline").read_bytes():
                found.append(int(status.parent.name))
    return found
