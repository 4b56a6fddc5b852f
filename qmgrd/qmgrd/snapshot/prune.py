"""Selects and removes old snapshots. The newest valid one of a queue manager is never removed.

An unreadable snapshot is left alone and does not count, because its queue manager is unknown. The
removal takes effect in one step: the snapshot is first given a name that no reader uses, or loses
its manifest. A directory with any other content is left alone, because it may be a store made from
a snapshot.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from qmgrd.snapshot import remote
from qmgrd.snapshot.finder import (
    DATA,
    PARTIAL,
    SnapshotUnreadable,
    StoredSnapshot,
    directories,
    read,
    verify,
)
from qmgrd.snapshot.manifest import MANIFEST
from qmgrd.snapshot.remote import RemoteFailed

UPLOAD_MAX_S = 86_400.0  # an upload that made no progress for longer than this is dead
_MORE = (
    "the directory contains more than a snapshot, or is a link; "
    "remove it by hand if you do not need it"
)


class Pruning(NamedTuple):
    """The snapshots to remove and the snapshots to keep."""

    go: list[StoredSnapshot]
    stay: list[StoredSnapshot]
    unreadable: list[str]  # the error of each snapshot that is left alone
    leftovers: list[str]  # directories and URLs that dead writers left


def plan(
    paths: Iterable[str], keep: int | None, older_than_us: int | None, known_sound: str = ""
) -> Pruning:
    """Returns which of the snapshots in *paths* to remove, by queue manager.

    Args:
        keep: The number of newest snapshots to keep.
        older_than_us: Keeps snapshots taken at this time or later. A snapshot is kept if either
            argument keeps it. If both arguments are missing, only the leftovers of dead writers are
            removed.
        known_sound: The directory of a snapshot that was just written.

    Raises:
        SnapshotUnreadable: A path does not exist.
    """
    there = list(paths)
    found, unreadable = _read(there)
    by_store: dict[str, list[StoredSnapshot]] = {}
    for snapshot in sorted(found, key=lambda one: (one.wall_us, one.turn), reverse=True):
        by_store.setdefault(snapshot.store_id, []).append(snapshot)
    go: list[StoredSnapshot] = []
    stay: list[StoredSnapshot] = []
    for snapshots in by_store.values():
        sound = None
        for number, snapshot in enumerate(snapshots):
            kept = keep is not None and number < keep
            kept |= older_than_us is not None and snapshot.wall_us >= older_than_us
            kept |= keep is None and older_than_us is None
            if sound is None and (snapshot.directory == known_sound or _is_sound(snapshot)):
                sound, kept = snapshot, True
            if not kept and not _may_go(snapshot.directory):
                kept = True
                unreadable.append(f"{snapshot.directory}: {_MORE}")
            (stay if kept else go).append(snapshot)
    return Pruning(go, stay, unreadable, [left for path in there for left in leftovers(path)])


def _read(paths: list[str]) -> tuple[list[StoredSnapshot], list[str]]:
    found, unreadable = [], []
    for path in paths:
        try:
            names = directories([path])
        except SnapshotUnreadable:
            if not leftovers(path):
                raise
            continue
        for name in names:
            try:
                found.append(read(name))
            except SnapshotUnreadable as error:
                unreadable.append(str(error))
    return found, unreadable


def _is_sound(snapshot: StoredSnapshot) -> bool:
    """Returns whether the data matches its checksum. For remote data, only the size is checked.

    Downloading each snapshot would take too long. The sizes were compared when the manifest was
    read.
    """
    try:
        verify(snapshot)
    except SnapshotUnreadable:
        return False
    return True


def remove_all_but_newest(
    place: str, store_id: str, keep: int, newest: str, queue_manager: str = ""
) -> tuple[list[str], str]:
    """Removes all but the *keep* newest snapshots of a store in *place*.

    Also removes leftovers of dead writers if their names begin with the name of the queue manager.
    Each scheduled snapshot has a unique name, so no later snapshot would remove these leftovers.

    Returns:
        The removed directories, and an error message or "".

    Args:
        newest: The directory of the snapshot that was just written.
    """
    removed: list[str] = []
    try:
        planned = plan([place], keep, None, newest)
        for snapshot in planned.go:
            if snapshot.store_id == store_id:
                remove(snapshot.directory)
                removed.append(snapshot.directory)
        for left in planned.leftovers:
            if queue_manager and os.path.basename(left).startswith(f"{queue_manager}-"):
                remove(left)
    except (SnapshotUnreadable, RemoteFailed) as error:
        return removed, str(error)
    except OSError as error:
        return removed, f"{error.filename}: {error.strerror}"
    return removed, ""


def remove(directory: str) -> None:
    """Removes a snapshot, or its leftovers.

    Raises:
        RemoteFailed, OSError: The snapshot still exists.
    """
    if remote.is_url(directory):
        remote.discard(directory)
        return
    path = Path(directory)
    if not _is_plain(path):
        raise OSError(errno.ENOTEMPTY, _MORE, directory)
    if PARTIAL not in path.name:
        path = path.rename(path.with_name(f"{path.name}{PARTIAL}{uuid4().hex[:12]}"))
    for name in (MANIFEST, DATA):
        (path / name).unlink(missing_ok=True)
    path.rmdir()


def _may_go(directory: str) -> bool:
    try:
        return remote.is_url(directory) or _is_plain(Path(directory))
    except OSError:  # For example, the directory was removed in the meantime.
        return False


def _is_plain(path: Path) -> bool:
    """Returns whether *path* is a directory that contains only the files of a snapshot."""
    if path.is_symlink():
        return False
    with os.scandir(path) as entries:
        return all(
            entry.name in (MANIFEST, DATA) and entry.is_file(follow_symlinks=False)
            for entry in entries
        )


def leftovers(path: str) -> list[str]:
    """Returns the leftovers of dead writers in the directory or below the URL *path*.

    Raises:
        SnapshotUnreadable: The path or URL cannot be reached.
    """
    if remote.is_url(path):
        try:
            return remote.leftovers(path, UPLOAD_MAX_S, time.time())
        except RemoteFailed as error:
            raise SnapshotUnreadable(str(error)) from error
    return [str(found) for found in leftovers_in(Path(remote.local_path(path)), f"*{PARTIAL}*")]


def leftovers_in(directory: Path, pattern: str) -> list[Path]:
    """Returns the directories whose names match *pattern* and that no process has locked.

    A directory with a file that no writer creates is skipped, regardless of its name.
    """
    found = []
    for leftover in sorted(directory.glob(pattern)):
        try:
            fd = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY)
        except (NotADirectoryError, FileNotFoundError, PermissionError):
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_plain(leftover):
                found.append(leftover)
        except (BlockingIOError, FileNotFoundError):
            # Another daemon is writing the directory. The first daemon to rename the directory
            # wins.
            continue
        finally:
            os.close(fd)
    return found
