"""Tests that a snapshot on another file system exists exactly as long as its manifest."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgrd.snapshot import remote
from qmgrd.snapshot.finder import SnapshotUnreadable, find, read, verify
from qmgrd.snapshot.remote import RemoteFailed
from tests.qmgrd.snapshot.far import Far, far

URL = "far:///bucket/one"


@pytest.fixture(autouse=True)
def fs() -> Iterator[type[Far]]:
    with far() as made:
        yield made


def there() -> list[str]:
    return sorted(Far.store)


@pytest.mark.parametrize(
    ("text", "is_url"),
    [
        ("s3://b/x", True),
        ("memory://x", True),
        ("/a/b", False),
        ("a:b", False),
        ("file:///a", False),
        ("local:///a", False),
        ("/a/s3://b", False),
    ],
)
def test_url_is_what_leads_elsewhere(text: str, is_url: bool) -> None:
    assert remote.is_url(text) == is_url


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///a/b", "/a/b"),
        ("file:/a", "/a"),
        ("local:///a", "/a"),
        ("/a:b", "/a:b"),
        ("s3://b/x", "s3://b/x"),
    ],
)
def test_url_of_a_local_file_is_a_path(text: str, path: str) -> None:
    assert remote.local_path(text) == path


def test_upload_is_read_back(snapshot: Path) -> None:
    done: list[int] = []
    remote.upload(snapshot, URL, done.append)
    assert there() == ["/bucket/one/data.mdb", "/bucket/one/manifest.json"]
    (found,) = find(["far:///bucket"])
    assert found == read(str(snapshot))._replace(directory=URL)
    assert done[-1] == found.data_bytes
    pieces: list[bytes] = []
    assert remote.fetch(URL, pieces.append) == found.data_bytes
    assert b"".join(pieces) == (snapshot / "data.mdb").read_bytes()
    verify(found)  # This verifies the checksum of the local copy.


def test_many_are_found_by_pattern(snapshot: Path) -> None:
    for name in ("a1", "a2", "b1"):
        remote.upload(snapshot, f"far:///bucket/{name}")
    assert remote.snapshots("far:///bucket/a*") == ["far:///bucket/a1", "far:///bucket/a2"]
    assert remote.snapshots("far:///bucket/b1/") == ["far:///bucket/b1"]
    assert len(find(["far:///bucket/b1,far:///bucket"])) == 3


def test_snapshot_is_not_replaced(snapshot: Path) -> None:
    remote.upload(snapshot, URL)
    with pytest.raises(
        RemoteFailed, match="one already exists: choose a new name for the snapshot"
    ):
        remote.upload(snapshot, URL)
    assert len(there()) == 2


@pytest.mark.parametrize("left", [0, 100, -1])
def test_upload_that_fails_leaves_nothing(snapshot: Path, fs: type[Far], left: int) -> None:
    """The upload fails at its start, in the data, or in the manifest."""
    size = (snapshot / "data.mdb").stat().st_size
    fs.left_bytes = left if left >= 0 else size + 10
    with pytest.raises(RemoteFailed) as failed:
        remote.upload(snapshot, URL)
    assert str(failed.value) == (
        f"{URL}: ConnectionResetError: the line is dead: check the URL and the permissions"
    )
    assert there() == []


def test_upload_that_is_cut_short_is_noticed(snapshot: Path, fs: type[Far]) -> None:
    fs.left_bytes, fs.cuts_short = 1_000, True
    size = (snapshot / "data.mdb").stat().st_size
    with pytest.raises(
        RemoteFailed, match=f"data.mdb: only 1000 of {size} bytes arrived: try again"
    ):
        remote.upload(snapshot, URL)
    assert there() == []


def test_data_without_a_manifest_is_no_snapshot_and_left_over_after_a_day(
    snapshot: Path, fs: type[Far]
) -> None:
    remote.upload(snapshot, URL)
    remote.upload(snapshot, "far:///bucket/two")
    del fs.store["/bucket/two/manifest.json"]
    assert [found.directory for found in find(["far:///bucket"])] == [URL]
    now_s = fs.store["/bucket/two/data.mdb"].modified.timestamp()
    assert remote.leftovers("far:///bucket", 60, now_s + 59) == []
    assert remote.leftovers("far:///bucket", 60, now_s + 61) == ["far:///bucket/two"]


def test_discard_removes_it(snapshot: Path) -> None:
    remote.upload(snapshot, URL)
    remote.discard(URL)
    assert there() == []
    remote.discard(URL)


def test_missing_file_is_named() -> None:
    with pytest.raises(SnapshotUnreadable, match="far:///bucket: no snapshot found; check the"):
        find(["far:///bucket"])
    for ask in (remote.manifest, remote.data_bytes, lambda url: remote.fetch(url, print)):
        with pytest.raises(RemoteFailed, match="not found; check the URL"):
            ask(URL)


def test_data_that_is_short_is_named(snapshot: Path, fs: type[Far]) -> None:
    remote.upload(snapshot, URL)
    with remote.place(URL).fs.open("/bucket/one/data.mdb", "wb") as file:
        file.write(b"x")
    with pytest.raises(SnapshotUnreadable, match=r"data\.mdb: damaged: 1 bytes, but the"):
        read(URL)


def test_unknown_scheme_is_named() -> None:
    with pytest.raises(RemoteFailed, match="gopher://x: ValueError: Protocol not known: gopher"):
        remote.place("gopher://x")


def test_without_fsspec_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(RemoteFailed) as failed:
        remote.place(URL)
    assert str(failed.value) == (
        f"{URL}: fsspec, which this URL needs, is not installed: pip install fsspec"
    )


def test_local_directories_need_no_fsspec(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert find([f"file://{snapshot}"])[0].directory == os.path.abspath(snapshot)
