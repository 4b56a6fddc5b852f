"""Tests of the destinations of files. Each file is complete or absent."""

import errno
import os
import resource
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from qmgr_tables.export.failure import ExportRefused
from qmgr_tables.export.target import LocalTarget, RemoteTarget, Target, open_target


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A destination of each kind, which does not exist yet."""
    return str(tmp_path / "out") if request.param == "local" else f"memory://{uuid.uuid4()}/out"


@pytest.fixture
def target(place: str) -> Iterator[Target]:
    found = open_target(place, "messages")
    yield found
    found.close()


def test_a_file_appears_under_its_name(target: Target) -> None:
    with target.draft() as draft:
        draft.stream.write(b"abc")
        assert "q=A/a.parquet" not in list(target.files())
        draft.publish("q=A/a.parquet")
    assert list(target.files()) == ["q=A/a.parquet"]
    target.remove("q=A/a.parquet")
    assert list(target.files()) == []


def test_unpublished_data_is_deleted(target: Target) -> None:
    with suppress(ZeroDivisionError), target.draft() as draft:
        draft.stream.write(b"abc")
        raise ZeroDivisionError
    assert list(target.files()) == []


def test_the_manifest_grows_by_lines(place: str) -> None:
    target = open_target(place, "messages")
    assert target.manifest() == b""
    for line in (b"1\n", b"2\n", b"tor"):
        target.append(line)
    target.close()
    again = open_target(place, "messages")
    assert again.manifest() == b"1\n2\ntor"
    again.truncate(4)
    again.append(b"3\n")
    assert again.manifest() == b"1\n2\n3\n"
    assert list(again.files()) == []
    again.close()


def test_each_kind_of_place_has_its_target(tmp_path: Path) -> None:
    for to, kind in ((f"file://{tmp_path}/a", LocalTarget), ("memory://b", RemoteTarget)):
        found = open_target(to, "messages")
        assert type(found) is kind
        found.close()
    assert (tmp_path / "a/messages/_manifest").exists()


def test_a_directory_is_of_one_export_at_a_time(tmp_path: Path) -> None:
    first = open_target(str(tmp_path), "messages")
    with pytest.raises(
        ExportRefused, match="messages: another export writes here; wait for its end"
    ):
        open_target(str(tmp_path), "messages")
    open_target(str(tmp_path), "queues").close()
    first.close()
    open_target(str(tmp_path), "messages").close()


def test_a_url_that_nothing_reaches_is_refused() -> None:
    with pytest.raises(ExportRefused, match="nosuch://x: nosuch:// is not supported"):
        open_target("nosuch://x", "messages")


def test_a_line_that_does_not_fit_is_not_there(tmp_path: Path) -> None:
    """If file sizes are limited, as on a full disk, only half of a line may be written."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        target = LocalTarget(tmp_path)
        target.append(b"whole\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            target.append(b"does not fit\n")
        except OSError as error:
            os.write(write, str(error.errno).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(read, 10)) == errno.ENOSPC
    assert (tmp_path / "_manifest").read_bytes() == b"whole\n"
    os.close(read)
    os.close(write)
