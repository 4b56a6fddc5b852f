"""Finds snapshots and reads their manifests. See qmgrd.snapshot.writer.

A manifest defines which parts of the data are read, so its own checksum must match: a shortened
range would hide messages. The checksum detects damage and edits. The checksum does not protect
against attackers, because they can compute it again.
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
from qmgrd.core.layout.keys import FORMATS_READ
from qmgrd.snapshot import remote
from qmgrd.snapshot.manifest import CHECKSUM, checksum
from qmgrd.snapshot.remote import RemoteFailed

FORMATS = (1, 2)  # the formats that can be read
FILE = "manifest.json"
DATA = remote.DATA
# Part of the name of a snapshot that is still being written, or was when a daemon died.
PARTIAL = ".partial-"
_MAKE_ONE = "make a snapshot: qmctl snapshot create DIRECTORY"
MANIFEST_MAX_BYTES = 256 << 20  # about 500 bytes per queue
# Pattern for names that become part of paths.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_NUMBER_MAX = 2**63 - 1
_verified: set[tuple[int, int, int, int]] = set()


class SnapshotUnreadable(Exception):
    """A path has no readable snapshot. The error message states the reason and the remedy."""


class Staging(NamedTuple):
    """The place where executors keep their copies of remote snapshots."""

    directory: str = ""  # "" means a private directory of the user among the temporary files
    # Maximum size of all copies together; the least recently used copies are deleted.
    bytes_max: int = 64 << 30


DEFAULT_STAGING = Staging()
# Ranges of arrival numbers, each with a start and an exclusive end. A restart lost the
# non-persistent messages in these ranges.
Lost = tuple[tuple[int, int], ...]


class LaneRange(NamedTuple):
    """The messages of one lane and priority."""

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
    ranges: tuple[LaneRange, ...]
    lost: Lost = ()


class StoredSnapshot(NamedTuple):
    """A snapshot, as its manifest describes it."""

    directory: str  # directory or URL
    id: str
    queue_manager: str
    turn: int
    data_bytes: int
    data_sha256: str
    queues: tuple[QueueInfo, ...]
    clock_ms: int = 0  # the store clock at that turn, in milliseconds
    wall_us: int = 0  # the wall clock at the same time, in microseconds
    store_id: str = ""
    boot: int = 0
    messages: int = 0
    format: int = 1
    staging: Staging = DEFAULT_STAGING
    # The start and exclusive end of the range of history rows; None means unknown.
    history: tuple[int, int] | None = None


def find(paths: Iterable[str], staging: Staging = DEFAULT_STAGING) -> list[StoredSnapshot]:
    """Returns the snapshots at *paths*, without duplicates, in the order of their directories.

    Args:
        staging: The place to which remote snapshots are copied when they are read.

    Raises:
        SnapshotUnreadable: A path refers to no snapshot, or a snapshot cannot be read.
    """
    return [read(directory)._replace(staging=staging) for directory in directories(paths)]


def directories(paths: Iterable[str]) -> list[str]:
    """Returns the directories and URLs of the snapshots at *paths*, valid or not, in order.

    Raises:
        SnapshotUnreadable: A path refers to no snapshot.
    """
    # The given paths, by resolved path. Executors can open the paths as given.
    found: dict[str, str] = {}
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
        raise SnapshotUnreadable(f"{url}: no snapshot found; check the URL, or {_MAKE_ONE}")
    return found


def _split(text: str) -> list[str]:
    """Returns the comma-separated paths in *text*, or only *text* if a path of that name exists."""
    if os.path.lexists(remote.local_path(text)):
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


def _snapshots_in(path: str) -> list[str]:
    if os.path.exists(os.path.join(path, FILE)):
        return [path]
    found = glob.glob(os.path.join(glob.escape(path), "*", FILE))
    return _whole(os.path.dirname(file) for file in found)


def _whole(directories: Iterable[str]) -> list[str]:
    """Returns *directories* without incomplete snapshots."""
    return [path for path in directories if PARTIAL not in os.path.basename(path)]


def _why_none(path: str, matches: list[str]) -> str:
    if not matches:
        return f"not found; check the path, or {_MAKE_ONE}"
    if not os.access(path, os.R_OK | os.X_OK) and os.path.isdir(path):
        return "permission denied; let the user that runs Spark read it"
    return f"not a snapshot, because it has no {FILE}; {_MAKE_ONE}"


def read(directory: str) -> StoredSnapshot:
    """Returns the snapshot in *directory*.

    Raises:
        SnapshotUnreadable: The manifest is missing, damaged or of a newer format, or the data is
            incomplete.
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
            f"{path}: damaged ({type(error).__name__}: {error}); take the snapshot again"
        ) from error
    if data_bytes != snapshot.data_bytes:
        raise SnapshotUnreadable(
            f"{directory}/{DATA}: damaged: {data_bytes} bytes, but the manifest states "
            f"{snapshot.data_bytes}; copy or take the snapshot again"
        )
    return snapshot


def _contents(directory: str) -> tuple[bytes, int]:
    """Returns the manifest and the size of the data file in bytes."""
    if remote.is_url(directory):
        return remote.manifest(directory), remote.data_bytes(directory)
    return _text(os.path.join(directory, FILE)), Path(directory, DATA).stat().st_size


def _text(path: str) -> bytes:
    """Returns the content of the manifest at *path*. Rejects everything except a regular file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("the manifest is not a regular file")
        if status.st_size > MANIFEST_MAX_BYTES:
            raise ValueError(f"{status.st_size} bytes (the limit is {MANIFEST_MAX_BYTES})")
        return file.read(MANIFEST_MAX_BYTES)


def _check_formats(directory: str, manifest: dict[str, Any]) -> None:
    """Rejects formats of other versions. Manifests of format 1 do not state a record format."""
    for what, known in (
        ("format", FORMATS),
        ("store_format", FORMATS_READ),
        ("lmdb_format", (1,)),
        ("record_format", (RECORD_FORMAT,)),
    ):
        if what == "record_format" and manifest["format"] == 1:
            continue
        if manifest[what] not in known:
            raise SnapshotUnreadable(
                f"{directory}: {what} {manifest[what]}, but this qmgrd reads "
                f"{' and '.join(map(str, known))}; read it with the version that wrote it"
            )


def _check_sum(path: str, manifest: dict[str, Any]) -> None:
    if manifest[CHECKSUM] != checksum(manifest):
        raise SnapshotUnreadable(
            f"{path}: damaged: its checksum does not match; copy or take the snapshot again"
        )


def _snapshot(directory: str, manifest: dict[str, Any]) -> StoredSnapshot:
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
    return StoredSnapshot(
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


def _range(found: dict[str, Any]) -> LaneRange:
    lane, priority, messages, first, last = (_number(found[name]) for name in LaneRange._fields)
    if not messages <= last - first + 1:
        raise ValueError(f"{messages} messages from arrival {first} to {last}")
    return LaneRange(lane, priority, messages, first, last)


def _number(found: Any) -> int:
    if type(found) is not int or not 0 <= found <= _NUMBER_MAX:
        raise ValueError(f"{str(found)[:40]!r} is not a number from 0 to {_NUMBER_MAX}")
    return found


def _name(found: Any) -> str:
    """Returns *found* if it is a valid id.

    Ids become file names, so they must not contain a path.
    """
    if not _NAME.fullmatch(str(found)):
        raise ValueError(f"{str(found)[:40]!r} is not a valid id")
    return str(found)


def verify(snapshot: StoredSnapshot) -> None:
    """Checks the data of *snapshot* against its checksum.

    A local file is read only once, unless it was written since then. Remote data is checked when it
    is staged, not here.

    Raises:
        SnapshotUnreadable: The data is damaged.
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
            f"{path}: damaged: its checksum differs from the manifest; "
            "copy or take the snapshot again"
        )
    _verified.add(version)


def _unreadable(error: OSError) -> SnapshotUnreadable:
    hint = "copy or take the snapshot again"
    if isinstance(error, PermissionError):
        hint = "let the user that runs Spark read it; the daemon's group may"
    return SnapshotUnreadable(f"{error.filename}: {error.strerror}; {hint}")
