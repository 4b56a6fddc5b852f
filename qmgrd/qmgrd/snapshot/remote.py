"""Snapshots on object stores and shared file systems: any URL that fsspec supports.

An object store cannot rename files. Therefore, a snapshot exists as soon as its manifest exists.
The manifest is written last and removed first. Data without a manifest was left by a killed upload,
or belongs to an upload in progress.

fsspec and its packages for URL schemes belong to the extra ``tables``. Snapshots on local disks do
not need these packages.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from qmgrd.snapshot.manifest import MANIFEST

DATA = "data.mdb"
PIECE_BYTES = 4 << 20
LOCAL_SCHEMES = ("file", "local")
Advance = Callable[[int], object]  # a function that receives the number of finished bytes


class RemoteFailed(Exception):
    """A remote operation failed. The error message states the place, the reason and the remedy."""


class RemoteDirectory(NamedTuple):
    """A directory of a file system."""

    fs: Any
    path: str
    url: str  # the path, without a trailing slash

    def at(self, *names: str) -> str:
        """Returns the path of *name* in this directory."""
        return "/".join([self.path, *names])


def is_url(text: str) -> bool:
    """Returns whether *text* is a URL of a file system other than the local one."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and "/" not in scheme and scheme not in LOCAL_SCHEMES


def place(url: str) -> RemoteDirectory:
    """Returns the directory to which *url* refers.

    Raises:
        RemoteFailed: fsspec does not support the URL.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteFailed(
            f"{url}: fsspec, which this URL needs, is not installed: pip install fsspec"
        ) from error
    with _reaching(url):
        fs, path = url_to_fs(url.rstrip("/"))
        return RemoteDirectory(fs, path.rstrip("/"), url.rstrip("/"))


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Converts any error to RemoteFailed with the URL. File systems raise different errors."""
    try:
        yield
    except RemoteFailed:
        raise
    except FileNotFoundError as error:
        raise RemoteFailed(f"{url}: not found; check the URL") from error
    except ImportError as error:
        text = " ".join(str(error).split())
        raise RemoteFailed(f"{url}: {text}: install it next to qmgrd") from error
    except Exception as error:
        text = " ".join(str(error).split()) or "no details"
        raise RemoteFailed(
            f"{url}: {type(error).__name__}: {text}: check the URL and the permissions"
        ) from error


def upload(directory: Path, url: str, advance: Advance = lambda done: None) -> None:
    """Copies the snapshot in *directory* to *url*. Returns after the copy is complete.

    Raises:
        RemoteFailed: The upload failed. No data is left at *url* if *url* can still be reached.
    """
    target = place(url)
    with _reaching(url):
        if target.fs.exists(target.at(MANIFEST)):
            raise RemoteFailed(f"{url} already exists: choose a new name for the snapshot")
        try:
            target.fs.makedirs(target.path, exist_ok=True)
            _put(target, directory / DATA, advance)
            _put(target, directory / MANIFEST, lambda done: None)
        except BaseException:
            with suppress(Exception):
                # Only the first error is reported. A later prune removes the leftovers.
                remove(target)
            raise


def _put(target: RemoteDirectory, source: Path, advance: Advance) -> None:
    path, done = target.at(source.name), 0
    with source.open("rb") as file, target.fs.open(path, "wb") as to:
        while piece := file.read(PIECE_BYTES):
            to.write(piece)
            done += len(piece)
            advance(done)
    target.fs.invalidate_cache()
    uploaded_bytes = target.fs.size(path)
    if uploaded_bytes != done:
        raise RemoteFailed(
            f"{target.url}/{source.name}: only {uploaded_bytes} of {done} bytes arrived: try again"
        )


def remove(target: RemoteDirectory) -> None:
    """Removes a snapshot.

    The manifest is removed first, and the rest is then no longer a snapshot.
    """
    target.fs.invalidate_cache()
    for name in (MANIFEST, DATA):
        with suppress(FileNotFoundError):
            target.fs.rm_file(target.at(name))
    with suppress(Exception):  # An object store has no directories, so there is nothing to remove.
        target.fs.rmdir(target.path)


def discard(url: str) -> None:
    """Removes the snapshot at *url*, or the leftovers of an upload.

    Raises:
        RemoteFailed: The snapshot still exists.
    """
    found = place(url)
    with _reaching(url):
        remove(found)
        if found.fs.exists(found.at(DATA)):
            raise RemoteFailed(f"{url}/{DATA}: still exists: check the permissions")


def snapshots(url: str) -> list[str]:
    """Returns the URLs of the snapshots to which *url* refers:

    *url* itself, those below it, or the matches of a pattern.

    Raises:
        RemoteFailed: *url* cannot be reached.
    """
    found = place(url)
    with _reaching(url):
        found.fs.invalidate_cache()
        if found.fs.exists(found.at(MANIFEST)):
            return [found.url]
        manifests = [*found.fs.glob(found.at(MANIFEST)), *found.fs.glob(found.at("*", MANIFEST))]
        return sorted({_url(found, path.rpartition("/")[0]) for path in manifests})


def leftovers(url: str, older_than_s: float, now_s: float) -> list[str]:
    """Returns the URLs below *url* with data but no manifest, unwritten for *older_than_s*.

    Raises:
        RemoteFailed: *url* cannot be reached.
    """
    found = place(url)
    with _reaching(url):
        found.fs.invalidate_cache()
        return [
            _url(found, path.rpartition("/")[0])
            for path in found.fs.glob(found.at("*", DATA))
            if not found.fs.exists(path.rpartition("/")[0] + "/" + MANIFEST)
            and found.fs.modified(path).timestamp() < now_s - older_than_s
        ]


def _url(near: RemoteDirectory, path: str) -> str:
    """Returns the URL of *path*, which is in the same file system as *near*."""
    url: str = near.fs.unstrip_protocol(path)
    return url.rstrip("/")


def manifest(url: str) -> bytes:
    """Returns the manifest of the snapshot at *url*.

    Raises:
        RemoteFailed: The manifest cannot be read.
    """
    found = place(url)
    with _reaching(f"{url}/{MANIFEST}"):
        data: bytes = found.fs.cat_file(found.at(MANIFEST))
        return data


def data_bytes(url: str) -> int:
    """Returns the size in bytes of the data of the snapshot at *url*.

    Raises:
        RemoteFailed: *url* cannot be read.
    """
    found = place(url)
    with _reaching(f"{url}/{DATA}"):
        return int(found.fs.size(found.at(DATA)))


def fetch(url: str, take: Callable[[bytes], object]) -> int:
    """Passes the data of the snapshot at *url* to *take* in pieces. Returns its size in bytes.

    Raises:
        RemoteFailed: *url* cannot be read.
        OSError: *take* raised this error.
    """
    found = place(url)
    done = 0
    with _opened(found) as file:
        while True:
            with _reaching(f"{url}/{DATA}"):
                piece = file.read(PIECE_BYTES)
            if not piece:
                return done
            take(piece)
            done += len(piece)


@contextmanager
def _opened(found: RemoteDirectory) -> Iterator[Any]:
    with _reaching(f"{found.url}/{DATA}"):
        file = found.fs.open(found.at(DATA), "rb")
    try:
        yield file
    finally:
        file.close()


def local_path(text: str) -> str:
    """Returns the path of a local file's URL, or any other *text* unchanged."""
    scheme, separator, rest = text.partition(":")
    if separator and scheme in LOCAL_SCHEMES and not os.path.lexists(text):
        return "/" + rest.lstrip("/")
    return text
