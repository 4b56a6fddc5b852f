"""Copies of remote snapshots on a local disk. Each snapshot is copied once per machine.

    KEY.lock        locked while the copy is made; KEY is from the snapshot's id and checksum
    KEY.partial/    an incomplete copy; its file has the full size from the start, so it counts
    KEY/data.mdb    a complete copy with a verified checksum; its time is the time of the last use
    room.lock       locked while space is freed and reserved

LMDB maps a file into memory. If the file were on a network, a network failure would crash the
process.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qmgrd.snapshot import remote
from qmgrd.snapshot.finder import DATA, SnapshotUnreadable, StoredSnapshot
from qmgrd.snapshot.remote import RemoteFailed

PARTIAL = ".partial"
LOCK = ".lock"
ROOM = "room" + LOCK
MODE = 0o700


def local(snapshot: StoredSnapshot) -> StoredSnapshot:
    """Returns *snapshot* as a complete local copy.

    Raises:
        SnapshotUnreadable: The snapshot cannot be fetched, is damaged, or is too large for the disk
            or the limit.
    """
    if not remote.is_url(snapshot.directory):
        return snapshot
    try:
        directory = _directory(snapshot.staging.directory)
        key = f"{snapshot.id}-{snapshot.data_sha256[:16]}"
        target = directory / key
        with _locked(directory / f"{key}{LOCK}"):
            if not (target / DATA).exists():
                _stage(snapshot, directory, key)
            os.utime(target)
    except RemoteFailed as error:
        raise SnapshotUnreadable(str(error)) from error
    except OSError as error:
        raise SnapshotUnreadable(
            f"{snapshot.directory}: cannot copy it to {error.filename}: {error.strerror}; "
            "choose another directory with the option stagingDirectory"
        ) from error
    return snapshot._replace(directory=str(target))


def _directory(given: str) -> Path:
    """Returns the directory for this user's copies."""
    directory = Path(given or Path(tempfile.gettempdir(), f"qmgr-staging-{os.getuid()}"))
    directory.mkdir(MODE, parents=bool(given), exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise SnapshotUnreadable(
            f"{directory} belongs to another user: choose another directory with the option "
            "stagingDirectory"
        )
    return directory


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _stage(snapshot: StoredSnapshot, directory: Path, key: str) -> None:
    partial = directory / f"{key}{PARTIAL}"
    _make_room(snapshot, directory, partial)
    try:
        digest = hashlib.sha256()
        with (partial / DATA).open("r+b", buffering=0) as file:

            def take(piece: bytes) -> None:
                digest.update(piece)
                file.write(piece)

            size = remote.fetch(snapshot.directory, take)
            os.fsync(file.fileno())
        if (size, digest.hexdigest()) != (snapshot.data_bytes, snapshot.data_sha256):
            raise SnapshotUnreadable(
                f"{snapshot.directory}/{DATA} is damaged: {size} bytes arrived, but the "
                f"size or the checksum differs from the manifest; copy or take the snapshot again"
            )
        partial.rename(directory / key)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _make_room(snapshot: StoredSnapshot, directory: Path, partial: Path) -> None:
    """Removes the least recently used copies until the new copy fits, and reserves its space."""
    needed, limit = snapshot.data_bytes, snapshot.staging.bytes_max
    if needed > limit:
        raise SnapshotUnreadable(
            f"{snapshot.directory}: {needed} bytes exceed the limit of {limit} for all copies; "
            "raise the option stagingMaxBytes"
        )
    with _locked(directory / ROOM):
        shutil.rmtree(partial, ignore_errors=True)  # A killed process may have left a partial copy.
        used = {path: _size(path) for path in directory.iterdir() if path.is_dir()}
        total = sum(used.values())
        for path in sorted(used, key=_age):
            if total + needed <= limit:
                break
            if _remove(path):
                total -= used[path]
        if total + needed > limit:
            raise SnapshotUnreadable(
                f"{snapshot.directory}: {needed} bytes are needed, but copies in use take "
                f"{total} of {limit} bytes; raise the option stagingMaxBytes"
            )
        partial.mkdir(MODE)
        with (partial / DATA).open("wb") as file:
            file.truncate(needed)


def _size(path: Path) -> int:
    with suppress(OSError):
        return (path / DATA).stat().st_size
    return 0


def _age(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _remove(path: Path) -> bool:
    """Removes a copy unless it is being made.

    Processes that have the file open can still read it.
    """
    lock = path.with_name(path.name.removesuffix(PARTIAL) + LOCK)
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(path, ignore_errors=True)
    return True
