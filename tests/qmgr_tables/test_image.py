"""Tests of open files: one per file and process, none of a parent process, up to a limit."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_tables import image as images
from qmgr_tables.image import OPEN_MAX, image
from qmgrd.snapshot.finder import SnapshotUnreadable, StoredSnapshot, read


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    yield
    while images._open:
        images._open.popitem()[1].close()


@pytest.fixture
def copy(snapshot: Path, tmp_path: Path) -> StoredSnapshot:
    return read(str(shutil.copytree(snapshot, tmp_path / "copy")))


def refusal(snapshot: StoredSnapshot) -> str:
    with pytest.raises(SnapshotUnreadable) as refused:
        image(snapshot)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_file_is_opened_once_by_whatever_path(copy: StoredSnapshot, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(copy.directory)
    assert image(copy) is image(copy)
    assert image(copy._replace(directory=str(tmp_path / "link"))) is image(copy)


def test_replaced_snapshot_is_opened_again(
    copy: StoredSnapshot, snapshot: Path, tmp_path: Path
) -> None:
    first = image(copy)
    shutil.rmtree(copy.directory)
    shutil.copytree(snapshot, copy.directory)
    assert image(copy) is not first


def test_snapshot_that_changed_since_the_plan_is_refused(copy: StoredSnapshot) -> None:
    assert "bytes, but 7 when the query was planned; the snapshot was replaced: run" in refusal(
        copy._replace(data_bytes=7)
    )


def test_executor_that_does_not_see_the_path_says_so(copy: StoredSnapshot) -> None:
    assert refusal(copy._replace(directory="/nowhere")) == (
        "/nowhere/data.mdb: No such file or directory; "
        "every executor must have snapshots under the same path"
    )


def test_damaged_file_is_refused_before_it_is_mapped(copy: StoredSnapshot) -> None:
    data = Path(copy.directory, "data.mdb")
    data.write_bytes(b"\0" * data.stat().st_size)
    assert "not a qmgrd store: it contains no LMDB magic number" in refusal(copy)
    assert refusal(copy).endswith("; copy or take the snapshot again")


def test_oldest_are_closed(copy: StoredSnapshot, tmp_path: Path) -> None:
    shots = [
        read(str(shutil.copytree(copy.directory, tmp_path / str(number))))
        for number in range(OPEN_MAX + 2)
    ]
    first = image(shots[0])
    second = image(shots[1])
    for shot in shots[2:]:
        image(shot)
        image(shots[0])  # This file is used repeatedly.
    assert len(images._open) == OPEN_MAX
    assert image(shots[0]) is first
    assert image(shots[1]) is not second


def test_process_that_was_forked_opens_its_own(copy: StoredSnapshot) -> None:
    """Spark forks its workers."""
    parents = image(copy)
    child = os.fork()
    if child == 0:
        try:
            found = image(copy)
            with found.transaction() as tx:
                sound = found is not parents and next(tx.scan(b"", b"\xff"), None) is not None
            os._exit(0 if sound else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert image(copy) is parents
    with parents.transaction() as tx:
        assert next(tx.scan(b"", b"\xff"), None) is not None
