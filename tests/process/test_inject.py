"""Tests of some failing system calls, and of planted faults that the harness must find.

`make inject` runs all failing calls.
"""

import sys
from pathlib import Path

import pytest

from tests.process import broken, inject
from tests.process.inject import Case, Seen

REASON = inject.unavailable()
pytestmark = [pytest.mark.process, pytest.mark.skipif(bool(REASON), reason=REASON)]


@pytest.mark.parametrize(
    ("case", "end"),
    [
        (Case("daemon", "fdatasync", "EIO", 6), "store"),
        (Case("daemon", "pwritev2", "ENOSPC+", 2), "store"),
        (Case("daemon", "ftruncate", "EINTR", 1), "lives"),
        (Case("daemon", "listen", "EADDRINUSE", 3), "listen"),
        (Case("daemon", "accept4", "EMFILE", 1), "lives, warned"),
        (Case("snapshot", "openat", "EMFILE+", 1), "lives, refused"),
        (Case("snapshot", "fsync", "EIO", 4), "lives, refused"),
    ],
    ids=str,
)
def test_daemon_ends_as_expected_after_a_failing_call(tmp_path: Path, case: Case, end: str) -> None:
    seen = inject.run(case, tmp_path)
    assert (seen.end, seen.fault) == (end, "")
    assert seen.hits, "the fault hit no call"


def test_fault_after_the_last_call_hits_nothing(tmp_path: Path) -> None:
    assert inject.run(Case("daemon", "fdatasync", "EIO", 10_000), tmp_path) == Seen("lives", [])


def test_unexpected_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inject, "EXPECTED", [])
    seen = inject.run(Case("daemon", "fdatasync", "EIO", 1), tmp_path)
    assert (seen.end, seen.fault.partition("\n")[0]) == ("store", "valid ends: lives")


@pytest.mark.parametrize(
    ("kind", "case", "words"),
    [
        ("swallow", Case("daemon", "pwritev2", "EIO", 3), "valid ends: store"),
        ("hurry", Case("daemon", "pwritev2", "EIO", 4), "puts are acknowledged"),
        ("hurry", Case("daemon", "pwritev2", "EIO", 5), "back after an acknowledged ack: [1, 2]"),
    ],
)
def test_broken_daemon_is_found(tmp_path: Path, kind: str, case: Case, words: str) -> None:
    seen = inject.run(case, tmp_path, [sys.executable, broken.__file__, kind])
    assert seen.hits
    assert words in seen.fault
