"""Finds snapshots and reads what each says of itself: see qmgrd.snapshot.writer.

A manifest says what to read, so it is trusted only with its own checksum: a range that was cut
short would leave messages out unseen. The checksum finds damage and edits; who means harm can make
it anew.
"""

import glob
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from qmgr_protocol.record import VERSION as RECORD_FORMAT
from qmgrd.core.layout.keys import FORMAT as STORE_FORMAT
from qmgrd.snapshot import remote
from qmgrd.snapshot.manifest import CHECKSUM, checksum
from qmgrd.snapshot.remote import RemoteFailed

FORMATS = (1, 2)  # that are read
FILE = "manifest.json"
DATA = remote.DATA
PARTIAL = ".partial-"  # in the name of what is being written, or was when a daemon died
_MAKE_ONE = "make a snapshot: qmctl snapshot create DIRECTORY"
MANIFEST_MAX_BYTES = 256 << 20  # some 500 bytes a queue
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")  # Of what becomes part of paths.
_NUMBER_MAX = 2**63 - 1
_verified: set[tuple[int, int, int, int]] = set()


class SnapshotUnreadable(Exception):
    """A path with no snapshot, or one that is damaged, incomplete or newer: what to try."""


class Staging(NamedTuple):
    """Where executors keep their copies of snapshots that lie elsewhere."""

    directory: str = ""  # none: one of the user's own among the temporary files
    bytes_max: int = 64 << 30  # of all copies; those that were not used for longest go


DEFAULT_STAGING = Staging()
# Ranges of arrivals, from and up to: what is not persistent there was lost with a restart.
Lost = tuple[tuple[int, int], ...]


class Range(NamedTuple):
    """Messages of one lane and priority."""

    lane: int
    priority: int
    messages: int
    first_arrival: int
    last_arrival: int


class QueueInfo(NamedTuple):
    """A queue in a snapshot."""

    name: str
    id: int
    kind: str
    ranges: tuple[Range, ...]
    lost: Lost = ()


class Snapshot(NamedTuple):
    """A snapshot, as its manifest tells."""

    directory: str  # or a URL
    id: str
    queue_manager: str
    turn: int
    data_bytes: int
    data_sha256: str
    queues: tuple[QueueInfo, ...]
    clock_ms: int = 0  # what the store's own clock said at that turn
    wall_us: int = 0  # and the wall clock, when it did
    store_id: str = ""
    boot: int = 0
    messages: int = 0
    format: int = 1
    staging: Staging = DEFAULT_STAGING
    history: tuple[int, int] | None = None  # its rows, from and up to; None is not told


def find(paths: Iterable[str], staging: Staging = DEFAULT_STAGING) -> list[Snapshot]:
    """Returns the snapshots that *paths* name, each once, in order of directory.

    Args:
        staging: where those that are not local are copied to once they are read.

    Raises:
        SnapshotUnreadable: a path leads to none, or one cannot be read.
    """
    return [read(directory)._replace(staging=staging) for directory in directories(paths)]


def directories(paths: Iterable[str]) -> list[str]:
    """Returns the directories and URLs of the snapshots that *paths* name, sound or not, in order.

    Raises:
        SnapshotUnreadable: a path leads to none.
    """
    found: dict[str, str] = {}  # what a path leads to, and the path, which executors see too
    for path in [part for text in paths for part in _split(text)]:
        if remote.is_url(path):
            found |= {url: url for url in _remote(path)}
            continue
        local = remote.local_path(path)
        matches = [local] if os.path.lexists(local) else _whole(glob.glob(local))
        there = [directory for match in matches for directory in _snapshots_in(match)]
        if not there:
            raise SnapshotUnreadable(f"{local}: {_why_none(local, matches)}")
        for directory in map(os.path.abspath, there):
            found.setdefault(os.path.realpath(directory), directory)
    return sorted(found.values())


def _remote(url: str) -> list[str]:
    try:
        found = remote.snapshots(url)
    except RemoteFailed as error:
        raise SnapshotUnreadable(str(error)) from error
    if not found:
        raise SnapshotUnreadable(f"{url}: there is no snapshot; check the URL, or {_MAKE_ONE}")
    return found


def _split(text: str) -> list[str]:
    """Returns the paths between the commas of *text*, unless there is a path of that very name."""
    if os.path.lexists(remote.local_path(text)):
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


def _snapshots_in(path: str) -> list[str]:
    if os.path.exists(os.path.join(path, FILE)):
        return [path]
    found = glob.glob(os.path.join(glob.escape(path), "*", FILE))
    return _whole(os.path.dirname(file) for file in found)


def _whole(directories: Iterable[str]) -> list[str]:
    """Returns *directories* without those that are being written, or were when a daemon died."""
    return [path for path in directories if PARTIAL not in os.path.basename(path)]


def _why_none(path: str, matches: list[str]) -> str:
    if not matches:
        return f"there is nothing; check the path, or {_MAKE_ONE}"
    if not os.access(path, os.R_OK | os.X_OK) and os.path.isdir(path):
        return "it may not be read; give the user that runs Spark the right to"
    return f"no snapshot, as there is no {FILE}; {_MAKE_ONE}"


def read(directory: str) -> Snapshot:
    """Returns the snapshot in *directory*.

    Raises:
        SnapshotUnreadable: its manifest is missing, damaged, of a newer format, or its data short.
    """
    path = os.path.join(directory, FILE)
    try:
        text, data_bytes = _contents(directory)
        manifest = json.loads(text)
        _check_formats(directory, manifest)
        _check_sum(path, manifest)
        snapshot = _snapshot(directory, manifest)
    except RemoteFailed as error:
        raise SnapshotUnreadable(str(error)) from error
    except OSError as error:
        raise _unreadable(error) from error
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise SnapshotUnreadable(
            f"{path}: damaged ({type(error).__name__}: {error}); take the snapshot anew"
        ) from error
    if data_bytes != snapshot.data_bytes:
        raise SnapshotUnreadable(
            f"{directory}/{DATA}: damaged: {data_bytes} bytes, the manifest says "
            f"{snapshot.data_bytes}; copy or take the snapshot anew"
        )
    return snapshot


def _contents(directory: str) -> tuple[bytes, int]:
    """Returns the manifest there, and how many bytes of data."""
    if remote.is_url(directory):
        return remote.manifest(directory), remote.data_bytes(directory)
    return _text(os.path.join(directory, FILE)), Path(directory, DATA).stat().st_size


def _text(path: str) -> bytes:
    """Returns what is in the manifest at *path*, which may be anything: nobody waits for a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no file")
        if status.st_size > MANIFEST_MAX_BYTES:
            raise ValueError(f"{status.st_size} bytes, at most {MANIFEST_MAX_BYTES}")
        return file.read(MANIFEST_MAX_BYTES)


def _check_formats(directory: str, manifest: dict[str, Any]) -> None:
    """Refuses what another version wrote; of format 1, no record format was told."""
    for what, known in (
        ("format", FORMATS),
        ("store_format", (STORE_FORMAT,)),
        ("lmdb_format", (1,)),
        ("record_format", (RECORD_FORMAT,)),
    ):
        if what == "record_format" and manifest["format"] == 1:
            continue
        if manifest[what] not in known:
            raise SnapshotUnreadable(
                f"{directory}: {what} {manifest[what]}, this qmgrd reads "
                f"{' and '.join(map(str, known))}; read it with the version that wrote it"
            )


def _check_sum(path: str, manifest: dict[str, Any]) -> None:
    if manifest[CHECKSUM] != checksum(manifest):
        raise SnapshotUnreadable(
            f"{path}: damaged: its own checksum does not match it; copy or take the snapshot anew"
        )


def _snapshot(directory: str, manifest: dict[str, Any]) -> Snapshot:
    queues = tuple(
        QueueInfo(
            str(row["queue"]),
            _number(row["queue_id"]),
            str(row["kind"]),
            tuple(_range(found) for found in row["ranges"]),
            tuple((_number(first), _number(before)) for first, before in row["lost"]),
        )
        for row in manifest["queues"]
    )
    history = manifest.get("history")
    return Snapshot(
        directory,
        _name(manifest["snapshot_id"]),
        str(manifest["queue_manager"]),
        _number(manifest["turn"]),
        _number(manifest["data_bytes"]),
        _name(manifest["data_sha256"]),
        queues,
        _number(manifest["clock_ms"]),
        _number(manifest["wall_us"]),
        _name(manifest["store_id"]),
        _number(manifest["boot"]),
        _number(manifest["messages"]),
        _number(manifest["format"]),
        history=None if history is None else (_number(history["first"]), _number(history["next"])),
    )


def _range(found: dict[str, Any]) -> Range:
    lane, priority, messages, first, last = (_number(found[name]) for name in Range._fields)
    if not messages <= last - first + 1:
        raise ValueError(f"{messages} messages from arrival {first} to {last}")
    return Range(lane, priority, messages, first, last)


def _number(found: Any) -> int:
    if type(found) is not int or not 0 <= found <= _NUMBER_MAX:
        raise ValueError(f"{str(found)[:40]!r} is no number from 0 to {_NUMBER_MAX}")
    return found


def _name(found: Any) -> str:
    """Returns an id that names of files are made of, so it must not lead elsewhere."""
    if not _NAME.fullmatch(str(found)):
        raise ValueError(f"{str(found)[:40]!r} is no id")
    return str(found)


def verify(snapshot: Snapshot) -> None:
    """Returns if the data of *snapshot* is what was written, as its checksum tells.

    A file that this process has found sound, and that nobody wrote since, is not read again. What
    lies elsewhere is not read here: it is held against its checksum as it is staged.

    Raises:
        SnapshotUnreadable: it is not.
    """
    if remote.is_url(snapshot.directory):
        return
    path = Path(snapshot.directory, DATA)
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            version = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            if version in _verified:
                return
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(error) from error
    if found != snapshot.data_sha256:
        raise SnapshotUnreadable(
            f"{path}: damaged: its checksum is not that of the manifest; "
            "copy or take the snapshot anew"
        )
    _verified.add(version)


def _unreadable(error: OSError) -> SnapshotUnreadable:
    hint = "copy or take the snapshot anew"
    if isinstance(error, PermissionError):
        hint = "let the user that runs Spark read it; the daemon lets its group"
    return SnapshotUnreadable(f"{error.filename}: {error.strerror}; {hint}")
