"""The destination of exported files: a local directory, or a file system of fsspec.

A file appears under its name only when it is complete. `_manifest` grows by whole lines.
"""

import errno
import fcntl
import os
import posixpath
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from qmgr_tables.export.failure import ExportRefused
from qmgr_tables.export.manifest import FILE

PARTIAL = "_partial-"  # Parquet readers skip names that begin with an underscore.


class Draft(Protocol):
    """A file that is being written."""

    stream: IO[bytes]

    def publish(self, name: str) -> None:
        """Makes the file durable, and visible as *name*."""


class Target(Protocol):
    """A destination for the files of one table and their manifest."""

    path: str

    def manifest(self) -> bytes:
        """Returns the content of the manifest, or b"" if the file does not exist."""

    def truncate(self, size_bytes: int) -> None:
        """Removes an incomplete line from the end of the manifest."""

    def append(self, line: bytes) -> None:
        """Adds a line to the manifest durably."""

    def draft(self) -> Any:
        """Returns a context with a new Draft.

        At the end of the context, an unpublished draft is deleted.
        """

    def files(self) -> Iterator[str]:
        """Yields the names of all files except the manifest. Partial files are included."""

    def remove(self, name: str) -> None:
        """Removes the file *name*."""

    def close(self) -> None:
        """Unlocks the target."""


def open_target(to: str, table: str) -> Target:
    """Returns the target for *table* below *to*, which may be a URL. Creates it if necessary.

    Raises:
        ExportRefused: Another process writes to the target, or such URLs are not supported.
        OSError: The target cannot be created.
    """
    scheme, separator, rest = to.partition("://")
    if not separator:
        return LocalTarget(Path(to).expanduser() / table)
    if scheme == "file":
        return LocalTarget(Path("/" + rest.lstrip("/")) / table)
    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(f"{to.rstrip('/')}/{table}")
    except (ImportError, ValueError) as error:
        raise ExportRefused(
            f"{to}: {scheme}:// is not supported: {error}; install the package that "
            f"fsspec needs for this scheme, or export to a directory"
        ) from error
    return RemoteTarget(system, path, f"{to.rstrip('/')}/{table}")


class LocalTarget:
    """A directory, locked while it is open."""

    def __init__(self, root: Path) -> None:
        self.path = str(root)
        self._root = root
        _make(root)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._manifest_fd = os.open(root / FILE, flags, 0o644)
        try:
            fcntl.flock(self._manifest_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._manifest_fd)
            raise ExportRefused(
                f"{root}: another export writes here; wait for its end, or choose another directory"
            ) from None
        _sync(root)

    def manifest(self) -> bytes:
        """Returns the content of the manifest."""
        return (self._root / FILE).read_bytes()

    def truncate(self, size_bytes: int) -> None:
        """Removes an incomplete line from the end of the manifest."""
        os.ftruncate(self._manifest_fd, size_bytes)

    def append(self, line: bytes) -> None:
        """Adds a line durably. If the line does not fit on the disk, it is removed again."""
        size = os.fstat(self._manifest_fd).st_size
        if os.write(self._manifest_fd, line) != len(line):
            self.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        os.fsync(self._manifest_fd)

    @contextmanager
    def draft(self) -> Iterator["LocalDraft"]:
        """Yields a new file, which is deleted at the end unless it was published."""
        path = self._root / f"{PARTIAL}{os.getpid()}"
        with path.open("wb") as stream:
            try:
                yield LocalDraft(stream, path, self._root)
            finally:
                path.unlink(missing_ok=True)

    def files(self) -> Iterator[str]:
        """Yields the names of all files except the manifest."""
        for path in self._root.rglob("*"):
            name = path.relative_to(self._root).as_posix()
            if name != FILE and path.is_file():
                yield name

    def remove(self, name: str) -> None:
        """Removes the file *name*."""
        (self._root / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Unlocks the directory."""
        os.close(self._manifest_fd)


class LocalDraft:
    """A file of a LocalTarget."""

    def __init__(self, stream: IO[bytes], path: Path, root: Path) -> None:
        self.stream = stream
        self._path = path
        self._root = root

    def publish(self, name: str) -> None:
        """Makes the file visible as *name*."""
        self.stream.flush()
        os.fsync(self.stream.fileno())
        final = self._root / name
        _make(final.parent)
        self._path.rename(final)
        _sync(final.parent)


class RemoteTarget:
    """A path in a file system of fsspec. A file is first written locally, then sent in one piece.

    Each new line rewrites the whole manifest. The target does not prevent two exports at the same
    time.
    """

    def __init__(self, system: Any, root: str, url: str) -> None:
        self.path = url
        self._system = system
        self._root = root
        self._manifest = posixpath.join(root, FILE)
        self._lines = system.cat_file(self._manifest) if system.exists(self._manifest) else b""

    def manifest(self) -> bytes:
        """Returns the content of the manifest."""
        lines: bytes = self._lines
        return lines

    def truncate(self, size_bytes: int) -> None:
        """Removes an incomplete line in memory. The next line is written without it."""
        self._lines = self._lines[:size_bytes]

    def append(self, line: bytes) -> None:
        """Adds a line to the manifest."""
        self._system.makedirs(self._root, exist_ok=True)
        self._system.pipe_file(self._manifest, self._lines + line)
        self._lines += line

    @contextmanager
    def draft(self) -> Iterator["RemoteDraft"]:
        """Yields a new local file, which is sent if it is published."""
        with tempfile.NamedTemporaryFile(prefix="qmgr-export-") as stream:
            yield RemoteDraft(stream, self._system, self._root)

    def files(self) -> Iterator[str]:
        """Yields the names of all files except the manifest."""
        with suppress(FileNotFoundError):
            for path in self._system.find(self._root):
                name = posixpath.relpath("/" + path.lstrip("/"), "/" + self._root.lstrip("/"))
                if name != FILE:
                    yield name

    def remove(self, name: str) -> None:
        """Removes the file *name*."""
        self._system.rm_file(posixpath.join(self._root, name))

    def close(self) -> None:
        """Does nothing, because the target holds no resource."""


class RemoteDraft:
    """A file of a RemoteTarget."""

    def __init__(self, stream: Any, system: Any, root: str) -> None:
        self.stream: IO[bytes] = stream
        self._system = system
        self._root = root

    def publish(self, name: str) -> None:
        """Sends the file to its destination *name*."""
        self.stream.flush()
        path = posixpath.join(self._root, name)
        self._system.makedirs(posixpath.dirname(path), exist_ok=True)
        self._system.put_file(self.stream.name, path)


def _make(directory: Path) -> None:
    """Creates *directory* and its missing parents durably."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        _sync(one.parent)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
