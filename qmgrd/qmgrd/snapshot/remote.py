"""Snapshots on object stores and shared file systems: all that fsspec reaches, by URL.

An object store has no rename. So a snapshot is there once its manifest is: that is written last and
removed first. What lies there without one is what a killed upload left, or one that goes on.

fsspec and what it loads for a scheme belong to the extra ``tables``; nothing of it is needed for
snapshots on local disks.
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
Advance = Callable[[int], object]  # is told how many bytes are done


class RemoteFailed(Exception):
    """A place that cannot be reached, or does not do what is asked: where, what, what to try."""


class Place(NamedTuple):
    """A directory of a file system."""

    fs: Any
    path: str
    url: str  # without a slash at its end

    def at(self, *names: str) -> str:
        """Returns the path of what has that name there."""
        return "/".join([self.path, *names])


def is_url(text: str) -> bool:
    """Returns whether *text* leads to another file system than the local one."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and "/" not in scheme and scheme not in LOCAL_SCHEMES


def place(url: str) -> Place:
    """Returns where *url* leads.

    Raises:
        RemoteFailed: fsspec does not know it.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteFailed(
            f"{url}: fsspec, which reaches it, is not installed: pip install fsspec"
        ) from error
    with _reaching(url):
        fs, path = url_to_fs(url.rstrip("/"))
        return Place(fs, path.rstrip("/"), url.rstrip("/"))


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Says of what goes wrong where it did; each file system has errors of its own."""
    try:
        yield
    except RemoteFailed:
        raise
    except FileNotFoundError as error:
        raise RemoteFailed(f"{url}: there is nothing; check the URL") from error
    except ImportError as error:
        text = " ".join(str(error).split())
        raise RemoteFailed(f"{url}: {text}: install that beside qmgrd") from error
    except Exception as error:
        text = " ".join(str(error).split()) or "no more is known"
        raise RemoteFailed(
            f"{url}: {type(error).__name__}: {text}: check the URL and the rights there"
        ) from error


def upload(directory: Path, url: str, advance: Advance = lambda done: None) -> None:
    """Copies the snapshot in *directory* to *url*; return once it is there, whole.

    Raises:
        RemoteFailed: nothing is left of it there, if that can still be reached.
    """
    target = place(url)
    with _reaching(url):
        if target.fs.exists(target.at(MANIFEST)):
            raise RemoteFailed(f"{url} exists: choose a new name for the snapshot")
        try:
            target.fs.makedirs(target.path, exist_ok=True)
            _put(target, directory / DATA, advance)
            _put(target, directory / MANIFEST, lambda done: None)
        except BaseException:
            with suppress(Exception):  # The first failure is told; prune removes what is left.
                remove(target)
            raise


def _put(target: Place, source: Path, advance: Advance) -> None:
    path, done = target.at(source.name), 0
    with source.open("rb") as file, target.fs.open(path, "wb") as to:
        while piece := file.read(PIECE_BYTES):
            to.write(piece)
            done += len(piece)
            advance(done)
    target.fs.invalidate_cache()
    there = target.fs.size(path)
    if there != done:
        raise RemoteFailed(f"{target.url}/{source.name}: {there} of {done} bytes came: ask again")


def remove(target: Place) -> None:
    """Removes a snapshot, the manifest first: from then on it is none."""
    target.fs.invalidate_cache()
    for name in (MANIFEST, DATA):
        with suppress(FileNotFoundError):
            target.fs.rm_file(target.at(name))
    with suppress(Exception):  # An object store has no directories, and nothing to remove.
        target.fs.rmdir(target.path)


def discard(url: str) -> None:
    """Removes the snapshot at *url*, or what an upload left there.

    Raises:
        RemoteFailed: it is there still.
    """
    found = place(url)
    with _reaching(url):
        remove(found)
        if found.fs.exists(found.at(DATA)):
            raise RemoteFailed(f"{url}/{DATA}: it is there still: check the rights there")


def snapshots(url: str) -> list[str]:
    """Returns the URLs of the snapshots that *url* names: one, those below it, or by a pattern.

    Raises:
        RemoteFailed: it cannot be reached.
    """
    found = place(url)
    with _reaching(url):
        found.fs.invalidate_cache()
        if found.fs.exists(found.at(MANIFEST)):
            return [found.url]
        manifests = [*found.fs.glob(found.at(MANIFEST)), *found.fs.glob(found.at("*", MANIFEST))]
        return sorted({_url(found, path.rpartition("/")[0]) for path in manifests})


def leftovers(url: str, older_than_s: float, now_s: float) -> list[str]:
    """Returns the URLs below *url* that have data, no manifest and were last written so long ago.

    Raises:
        RemoteFailed: it cannot be reached.
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


def _url(near: Place, path: str) -> str:
    """Returns the URL of *path*, which lies in the same file system as *near*."""
    url: str = near.fs.unstrip_protocol(path)
    return url.rstrip("/")


def manifest(url: str) -> bytes:
    """Returns the manifest of the snapshot at *url*.

    Raises:
        RemoteFailed: it cannot be read.
    """
    found = place(url)
    with _reaching(f"{url}/{MANIFEST}"):
        data: bytes = found.fs.cat_file(found.at(MANIFEST))
        return data


def data_bytes(url: str) -> int:
    """Returns how many bytes the data of the snapshot at *url* has.

    Raises:
        RemoteFailed: it cannot be read.
    """
    found = place(url)
    with _reaching(f"{url}/{DATA}"):
        return int(found.fs.size(found.at(DATA)))


def fetch(url: str, take: Callable[[bytes], object]) -> int:
    """Hands the data of the snapshot at *url* to *take*, piece by piece; return how many bytes.

    Raises:
        RemoteFailed: it cannot be read.
        OSError: as *take* does.
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
def _opened(found: Place) -> Iterator[Any]:
    with _reaching(f"{found.url}/{DATA}"):
        file = found.fs.open(found.at(DATA), "rb")
    try:
        yield file
    finally:
        file.close()


def local_path(text: str) -> str:
    """Returns *text* as a path where it is one, or a URL of a local file; else as it is."""
    scheme, separator, rest = text.partition(":")
    if separator and scheme in LOCAL_SCHEMES and not os.path.lexists(text):
        return "/" + rest.lstrip("/")
    return text
