"""The process that writes a snapshot: `python -m qmgrd.ops.snapshot_writer ORDER < pipe`.

    DIR.partial-ID/     made first, locked while this process lives
      data.mdb          what came through the pipe, synced as it grows
      manifest.json     what data.mdb holds, counted in data.mdb itself
    DIR/                the same, renamed once all of it is on disk

Whole or not at all: the pipe must end in TRAILER, so a daemon that dies on the way leaves nothing.
It prints one line of JSON, {"manifest": {...}} or {"error": "..."}, and exits 0 or 1.
"""

import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from qmgr_protocol.codec import unpack
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core import row as rows
from qmgrd.core.counters import Counters
from qmgrd.core.kv import Transaction
from qmgrd.core.named import KINDS
from qmgrd.ops.manifest import CHECKSUM, MANIFEST, checksum
from qmgrd.store.image import open_image
from qmgrd.store.inspect import StoreUnreadable

FORMAT = 1  # of the manifest and of the directory
LMDB_FORMAT = 1
TRAILER = b"\0whole\0\xff"  # behind the last page
PIECE_BYTES = 1 << 20
SYNC_BYTES = 8 << 20  # Much unsynced data would make the daemon's own syncs wait.
DIRECTORY_MODE, FILE_MODE = 0o750, 0o640
NICENESS = 10
_HINTS = {
    errno.ENOENT: "create the directory that is to hold it",
    errno.ENOTDIR: "choose a path below a directory",
    errno.EACCES: "let the daemon's user write there, or choose another place",
    errno.EPERM: "let the daemon's user write there, or choose another place",
    errno.EROFS: "choose a place where the daemon may write (a service unit may forbid this one)",
    errno.ENOSPC: "free some space, or choose another disk",
    errno.EDQUOT: "free some space, or choose another disk",
}


Ranges = dict[int, list[dict[str, int]]]
Lost = dict[int, list[list[int]]]


class Order(NamedTuple):
    """What a writer is asked to do; travels as JSON in its command line."""

    directory: str
    partial: str  # the name to write under, beside *directory*
    turn: int
    expected_bytes: int  # about what will come
    rate_bytes: int  # the most to write in a second
    reserve_bytes: int  # what must stay free on the disk


class WriteFailed(Exception):
    """A snapshot that cannot be: what, where, what to try."""


def write(order: Order, source_fd: int) -> dict[str, Any]:
    """Write the snapshot whose data comes out of *source_fd*; return its manifest.

    Raises:
        WriteFailed: nothing is left of it.
    """
    target = Path(order.directory)
    try:
        if b"\0" in str(target).encode():
            raise WriteFailed(f"{order.directory!r} is no path: it holds a NUL")
        if os.path.lexists(target):
            raise WriteFailed(f"{target} exists: choose a new name for the snapshot")
        remove_leftovers(target)
        return _write_beside(target, order, source_fd)
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "choose another place")
        raise WriteFailed(f"{target}: {error.strerror}: {hint}") from error
    except UnicodeEncodeError as error:
        raise WriteFailed(f"{order.directory!r} is no path: {error.reason}") from error


def _write_beside(target: Path, order: Order, source_fd: int) -> dict[str, Any]:
    partial = target.with_name(order.partial)
    partial.mkdir(DIRECTORY_MODE)
    made = partial
    try:
        with _locked(partial) as lock_fd:
            manifest = _fill(order, partial, source_fd)
            os.fsync(lock_fd)
            made = partial.rename(target)
            _sync(target.parent)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return manifest


@contextmanager
def _locked(partial: Path) -> Iterator[int]:
    fd = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def remove_leftovers(target: Path) -> None:
    """Remove what killed runs left of *target*: partial directories that no process holds."""
    for leftover in target.parent.glob(f"{glob.escape(target.name)}.partial-*"):
        fd = os.open(leftover, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(leftover, ignore_errors=True)
        except BlockingIOError:
            continue  # Another daemon writes it; the first to rename wins.
        finally:
            os.close(fd)


def _fill(order: Order, partial: Path, source_fd: int) -> dict[str, Any]:
    data = partial / "data.mdb"
    free_bytes = _free(partial)
    if free_bytes - order.expected_bytes < order.reserve_bytes:
        raise WriteFailed(
            f"{partial.parent}: the disk has {free_bytes} bytes free, about "
            f"{order.expected_bytes} are needed and {order.reserve_bytes} must stay: "
            "free some space, or choose another disk"
        )
    size, digest = _receive(order, data, source_fd)
    try:
        manifest = describe(data)
    except (StoreUnreadable, rows.RowDamaged) as error:
        raise WriteFailed(f"the copy cannot be read: {error}") from error
    if manifest["turn"] != order.turn:
        raise WriteFailed(f"the copy is of turn {manifest['turn']}, not of turn {order.turn}")
    manifest |= {"data_bytes": size, "data_sha256": digest}
    manifest[CHECKSUM] = checksum(manifest)
    fd = os.open(partial / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with open(fd, "w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(fd)
    return manifest


def _receive(order: Order, data: Path, source_fd: int) -> tuple[int, str]:
    """Write what comes out of *source_fd*, slowly; return how many bytes, and their SHA-256."""
    digest = hashlib.sha256()
    size = synced = 0
    tail = b""
    started = time.monotonic()
    fd = os.open(data, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with open(fd, "wb", buffering=0) as file:
        while piece := os.read(source_fd, PIECE_BYTES):
            piece = tail + piece
            piece, tail = piece[: -len(TRAILER)], piece[-len(TRAILER) :]
            digest.update(piece)
            file.write(piece)
            size += len(piece)
            if size - synced >= SYNC_BYTES:
                os.fdatasync(fd)
                synced = size
                _check_reserve(order, data)
            time.sleep(max(0.0, started + size / order.rate_bytes - time.monotonic()))
        os.fsync(fd)
    if tail != TRAILER:
        raise WriteFailed(f"the daemon stopped the copy after {size} bytes: ask again")
    return size, digest.hexdigest()


def _check_reserve(order: Order, path: Path) -> None:
    free_bytes = _free(path)
    if free_bytes < order.reserve_bytes:
        raise WriteFailed(
            f"{path}: the disk has {free_bytes} bytes free, {order.reserve_bytes} must stay: "
            "free some space, or choose another disk"
        )


def _free(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def describe(data: Path) -> dict[str, Any]:
    """Return what *data* holds: whose it is, which turn, and what lies on each queue.

    Raises:
        StoreUnreadable: it is no data file, or damaged.
        RowDamaged: one of the rows that are read; it may be no store of qmgrd.
    """
    image = open_image(data)
    try:
        with image.transaction() as tx:
            store = rows.get(tx, keys.STORE)
            store_id, store_format, boot = keys.STORE_ROW.unpack_from(store)
            name = store[keys.STORE_ROW.size :].decode()
            clock_ms, wall_us, _, turn, _ = keys.CLOCK_ROW.unpack_from(rows.get(tx, keys.CLOCK))
            lost = _lost(tx)
            ranges = _ranges(tx, lost)
            defined = [(key, unpack(row)) for key, row in rows.scan(tx, keys.SPACE_QUEUE)]
            queues = [
                _queue(tx, key[1:].decode(), row, ranges, lost)
                for key, row in defined
                if row["kind"] not in KINDS
            ]
    finally:
        image.close()
    return {
        "format": FORMAT,
        "snapshot_id": f"{name}-{store_id.hex()[:8]}-{boot}-{turn}",
        "queue_manager": name,
        "store_id": store_id.hex(),
        "boot": boot,
        "turn": turn,
        "created": datetime.fromtimestamp(wall_us // 1_000_000, UTC).isoformat(),
        "clock_ms": clock_ms,
        "wall_us": wall_us,
        "store_format": store_format,
        "lmdb_format": LMDB_FORMAT,
        "messages": sum(queue["depth"] + queue["delayed"] for queue in queues),
        "queues": queues,
    }


def _lost(tx: Transaction) -> Lost:
    """Return by queue id ranges of arrivals, of which a restart lost what is not persistent."""
    found: Lost = {}
    for _, row in rows.scan(tx, keys.SPACE_JOB):
        job = unpack(row)
        if job["kind"] == "sweep" and not job.get("ended_us"):
            found.setdefault(job["queue_id"], []).append([job["first"], job["before"]])
    return found


def _ranges(tx: Transaction, lost: Lost) -> Ranges:
    """Return by queue id what lies in each lane and priority: how many, from where to where."""
    runs: dict[bytes, tuple[int, bytes]] = {}  # how many, and the first key
    ends: dict[bytes, bytes] = {}
    gone = {keys.of_queue(keys.SPACE_MESSAGE, queue_id): found for queue_id, found in lost.items()}
    for key, value in tx.scan(keys.SPACE_MESSAGE, keys.after(keys.SPACE_MESSAGE)):
        if gone and key[:5] in gone and _is_lost(key, value, gone[key[:5]]):
            continue
        start = key[:7]
        count, first = runs.get(start, (0, key))
        runs[start] = count + 1, first
        ends[start] = key
    found: Ranges = {}
    for start, (count, first) in runs.items():
        priority, first_arrival = keys.place(first)
        found.setdefault(int.from_bytes(start[1:5], "big"), []).append({
            "lane": start[5],
            "priority": priority,
            "messages": count,
            "first_arrival": first_arrival,
            "last_arrival": keys.place(ends[start])[1],
        })  # fmt: skip
    return found


def _is_lost(key: bytes, value: bytes, lost: list[list[int]]) -> bool:
    arrival = keys.place(key)[1]
    return entries.decode(value).volatile and any(
        first <= arrival < before for first, before in lost
    )


def _queue(
    tx: Transaction, name: str, row: dict[str, Any], ranges: Ranges, lost: Lost
) -> dict[str, Any]:
    queue_id = row["queue_id"]
    counters = Counters.read(tx, queue_id, name)
    found = ranges.get(queue_id, [])
    ready = [one for one in found if one["lane"] in (keys.LANE_READY, keys.LANE_GROUPED)]
    delayed = [one for one in found if one["lane"] == keys.LANE_DELAYED]
    return {
        "queue": name,
        "queue_id": queue_id,
        "kind": row["kind"],
        "depth": sum(one["messages"] for one in ready),
        "delayed": sum(one["messages"] for one in delayed),
        "bytes": counters.bytes,
        "first_arrival": min((one["first_arrival"] for one in ready), default=None),
        "last_arrival": max((one["last_arrival"] for one in ready), default=None),
        "ranges": found,
        "lost": lost.get(queue_id, []),
    }


def main() -> int:
    """Do what the command line asks; return the exit code."""
    os.nice(NICENESS)
    order = Order(**json.loads(sys.argv[1]))
    try:
        manifest = write(order, sys.stdin.fileno())
    except WriteFailed as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps({"manifest": manifest}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
