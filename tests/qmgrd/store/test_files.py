"""Tests of the functions that flush and examine the files of a store."""

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store.files import status_of, sync


def test_file_and_directory_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.readlink(f"/proc/self/fd/{fd}")))
    file = tmp_path / "file"
    file.touch()
    sync(file)
    sync(tmp_path)
    assert flushed == [str(file), str(tmp_path)]


def test_directory_that_may_not_be_read_is_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "open", refuse)
    sync(tmp_path)


def test_status_of_a_file_is_that_of_its_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12")
    fd = os.open(path, os.O_RDONLY)
    path.unlink()
    assert (status_of(fd, path).st_size, status_of(fd, path).st_nlink) == (2, 0)
    os.close(fd)
    with pytest.raises(StoreFailed, match=f"{path}: Bad file descriptor"):
        status_of(fd, path)
