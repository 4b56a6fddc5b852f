import sys

import pytest

from qmgr_bench import progress_line
from qmgr_bench.progress_line import ProgressLine


def test_progress_is_reported_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_line, "LINE_EVERY_S", 3_600.0)
    shown = ProgressLine()
    shown.say("one")
    shown.say("two")
    shown.note("three")
    shown.end()
    assert capsys.readouterr().err == "one\nthree\n"


def test_terminal_has_one_line_that_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = ProgressLine()
    shown.say("x" * 40)
    shown.say("two")
    shown.end()
    assert capsys.readouterr().err == f"\r\x1b[K{'x' * 19}\r\x1b[Ktwo\r\x1b[K"
