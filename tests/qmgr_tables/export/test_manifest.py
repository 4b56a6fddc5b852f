"""Tests of the manifest of a directory of exported files."""

import pytest

from qmgr_tables.export.failure import ExportFailed
from qmgr_tables.export.manifest import NOTHING, Manifest, Progress, line

HEADER = line({"format": 1, "table": "messages"})
FILE = line({"key": "s/1", "first": 1, "last": 9, "file": "a", "rows": 9, "last_id": "QM.1"})


def test_an_empty_one_holds_nothing() -> None:
    held = Manifest("m", b"")
    assert (held.header, held.files, held.whole_bytes) == ({}, set(), 0)
    assert held.progress("s/1") == Progress(NOTHING, None)


def test_each_line_moves_its_feed_on() -> None:
    held = Manifest("m", HEADER + FILE)
    assert held.files == {"a"}
    assert held.progress("s/1") == Progress(9, "QM.1")
    held.add({"key": "s/1", "last": 12, "file": "b", "last_id": None})
    assert held.progress("s/1") == Progress(12, None)


@pytest.mark.parametrize("cut", range(1, len(FILE)))
def test_a_torn_line_counts_as_not_there(cut: int) -> None:
    held = Manifest("m", HEADER + FILE[:-cut])
    assert held.files == set()
    assert held.whole_bytes == len(HEADER)


@pytest.mark.parametrize("bad", [b"{\n", b"[]\n", b'{"key": 1}\n', b"1\n", b"\xff\n"])
def test_damage_is_named_by_its_line(bad: bytes) -> None:
    with pytest.raises(
        ExportFailed, match=r"^m: line 2 is damaged; restore the file, or export to a"
    ):
        Manifest("m", HEADER + bad + FILE)


def test_a_newer_one_is_refused() -> None:
    with pytest.raises(
        ExportFailed, match=r"^m: format 2, but this qmctl supports format 1; use the version"
    ):
        Manifest("m", line({"format": 2}))
