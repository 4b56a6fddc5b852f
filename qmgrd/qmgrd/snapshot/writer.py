"""The process that writes a snapshot: `python -m qmgrd.snapshot.writer ORDER < pipe`.

    DIR.partial-ID/     created first, locked while this process runs
      data.mdb          the data from the pipe, synced as it grows
      manifest.json     the facts of data.mdb, counted in data.mdb itself
    DIR/                the same, renamed after all data is on disk

A remote snapshot is written to the staging directory and copied from there (remote.py). The data in
the pipe must end with TRAILER. Therefore, a daemon that dies during the copy leaves no snapshot.
The process prints one line of JSON, {"manifest": {...}, "removed": [...], "trouble": "..."} or
{"error": "..."}, and exits with 0 or 1.
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
from pathlib import Path
from typing import Any, NamedTuple

from qmgrd.core.layout.row import RowDamaged
from qmgrd.snapshot import remote
from qmgrd.snapshot.facts import describe
from qmgrd.snapshot.finder import PARTIAL
from qmgrd.snapshot.manifest import CHECKSUM, MANIFEST, checksum
from qmgrd.snapshot.progress import Phase, ProgressWriter
from qmgrd.snapshot.prune import leftovers_in, remove_all_but_newest
from qmgrd.snapshot.remote import RemoteFailed
from qmgrd.store.inspect import StoreUnreadable

TRAILER = b"\0whole\0\xff"  # the bytes that follow the last page in the pipe
PIECE_BYTES = 1 << 20
SYNC_BYTES = 8 << 20  # More unsynced data would delay the daemon's own syncs.
DIRECTORY_MODE, FILE_MODE = 0o700, 0o600  # Only the owner may read messages.
UMASK = 0o077  # the umask for copies that other libraries write
NICENESS = 10
_HINTS = {
    errno.ENOENT: "create its parent directory",
    errno.ENOTDIR: "choose a path below a directory",
    errno.EACCES: "allow the daemon's user to write there, or choose another place",
    errno.EPERM: "allow the daemon's user to write there, or choose another place",
    errno.EROFS: "choose a place that the daemon may write to (a service unit may forbid this one)",
    errno.ENOSPC: "free some space, or choose another disk",
    errno.EDQUOT: "free some space, or choose another disk",
}


class WriteRequest(NamedTuple):
    """The request to a writer, passed as JSON on its command line."""

    directory: str  # a directory or a URL
    partial: str  # the temporary name, next to *directory* or in the staging directory
    turn: int
    expected_bytes: int  # the estimated size of the copy in bytes
    rate_bytes: int  # the maximum number of bytes written per second
    reserve_bytes: int  # the free space in bytes that must remain on the disk
    staging: str = ""  # the directory in which a remote snapshot is written first
    # Number of the queue manager's snapshots to keep next to *directory*; 0 means all.
    keep: int = 0
    progress_fd: int = -1  # the file descriptor for qmgrd.snapshot.progress

    @property
    def partial_path(self) -> Path:
        """The path at which the snapshot is written first."""
        if remote.is_url(self.directory):
            return Path(self.staging, self.partial)
        return Path(self.directory).with_name(self.partial)


class WriteFailed(Exception):
    """A snapshot failed. The message states the error, the place and the remedy."""


def write(order: WriteRequest, source_fd: int) -> dict[str, Any]:
    """Writes the snapshot from the data in *source_fd*. Returns the manifest.

    Raises:
        WriteFailed: The snapshot could not be written. No data is left of it.
    """
    target = order.directory
    try:
        if b"\0" in target.encode():
            raise WriteFailed(f"{target!r} is not a valid path: it contains a NUL")
        if remote.is_url(target):
            return _write_elsewhere(order, source_fd)
        if os.path.lexists(target):
            raise WriteFailed(f"{target} already exists: choose a new name for the snapshot")
        path = Path(target)
        remove_leftovers(path.parent, f"{glob.escape(path.name)}{PARTIAL}*")
        return _write_beside(path, order, source_fd)
    except RemoteFailed as error:
        raise WriteFailed(str(error)) from error
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "choose another place")
        raise WriteFailed(f"{target}: {error.strerror}: {hint}") from error
    except UnicodeEncodeError as error:
        raise WriteFailed(f"{target!r} is not a valid path: {error.reason}") from error


def _write_beside(target: Path, order: WriteRequest, source_fd: int) -> dict[str, Any]:
    partial = order.partial_path
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


def _write_elsewhere(order: WriteRequest, source_fd: int) -> dict[str, Any]:
    """Writes to the staging directory, then copies to the destination with the manifest last."""
    partial = order.partial_path
    partial.parent.mkdir(DIRECTORY_MODE, exist_ok=True)
    remove_leftovers(partial.parent, f"*{PARTIAL}*")
    partial.mkdir(DIRECTORY_MODE)
    try:
        with _locked(partial):
            manifest = _fill(order, partial, source_fd)
            progress = ProgressWriter(order.progress_fd, manifest["data_bytes"])
            remote.upload(
                partial, order.directory, lambda done: progress.report(Phase.UPLOADING, done)
            )
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


@contextmanager
def _locked(partial: Path) -> Iterator[int]:
    fd = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def remove_leftovers(directory: Path, pattern: str) -> None:
    """Removes the leftovers of killed runs: partial directories that no process locks."""
    for leftover in leftovers_in(directory, pattern):
        shutil.rmtree(leftover, ignore_errors=True)


def _fill(order: WriteRequest, partial: Path, source_fd: int) -> dict[str, Any]:
    data = partial / remote.DATA
    free_bytes = _free(partial)
    if free_bytes - order.expected_bytes < order.reserve_bytes:
        raise WriteFailed(
            f"{partial.parent}: the disk has {free_bytes} bytes free, but about "
            f"{order.expected_bytes} are needed and {order.reserve_bytes} must remain: "
            "free some space, or choose another disk"
        )
    size, digest = _receive(order, data, source_fd)
    ProgressWriter(order.progress_fd, size).report(Phase.COUNTING, size)
    try:
        manifest = describe(data)
    except (StoreUnreadable, RowDamaged) as error:
        raise WriteFailed(f"the copy cannot be read: {error}") from error
    if manifest["turn"] != order.turn:
        raise WriteFailed(f"the copy is of turn {manifest['turn']}, not of turn {order.turn}")
    manifest |= {"data_bytes": size, "data_sha256": digest}
    manifest[CHECKSUM] = checksum(manifest)
    _forget(data)
    fd = os.open(partial / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with open(fd, "w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(fd)
    return manifest


def _receive(order: WriteRequest, data: Path, source_fd: int) -> tuple[int, str]:
    """Writes the data from *source_fd* at a limited rate. Returns its size and SHA-256."""
    digest = hashlib.sha256()
    progress = ProgressWriter(order.progress_fd, order.expected_bytes)
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
            progress.report(Phase.WRITING, size)
            if size - synced >= SYNC_BYTES:
                os.fdatasync(fd)
                synced = size
                _check_reserve(order, data)
            time.sleep(max(0.0, started + size / order.rate_bytes - time.monotonic()))
        os.fsync(fd)
    if tail != TRAILER:
        raise WriteFailed(f"the daemon stopped the copy after {size} bytes: try again")
    return size, digest.hexdigest()


def _check_reserve(order: WriteRequest, path: Path) -> None:
    free_bytes = _free(path)
    if free_bytes < order.reserve_bytes:
        raise WriteFailed(
            f"{path}: the disk has {free_bytes} bytes free, but {order.reserve_bytes} must remain: "
            "free some space, or choose another disk"
        )


def _forget(data: Path) -> None:
    """Drops the file from the page cache, so that the daemon's store can use that memory."""
    fd = os.open(data, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _free(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def main() -> int:
    """Runs the request that the command line contains. Returns the exit code."""
    os.nice(NICENESS)
    os.umask(UMASK)
    order = WriteRequest(**json.loads(sys.argv[1]))
    try:
        if order.directory.startswith("memory:"):
            raise WriteFailed(
                f"{order.directory}: the snapshot would be lost with the process: choose a disk"
            )
        manifest = write(order, sys.stdin.fileno())
    except WriteFailed as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps({"manifest": manifest} | _thin(order, manifest)))
    return 0


def _thin(order: WriteRequest, manifest: dict[str, Any]) -> dict[str, Any]:
    """Removes older snapshots as requested. Returns the removed snapshots and the error, if any."""
    if not order.keep:
        return {}
    place = order.directory.rstrip("/").rpartition("/")[0] or "/"
    removed, trouble = remove_all_but_newest(
        place, manifest["store_id"], order.keep, order.directory, manifest["queue_manager"]
    )
    return {"removed": removed, "trouble": trouble}


if __name__ == "__main__":
    sys.exit(main())
