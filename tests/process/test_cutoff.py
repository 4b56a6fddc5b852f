"""Short campaigns on file systems that are cut off. ``make cutoff`` runs long ones."""

from pathlib import Path

import pytest

from tests.process import cutoff

pytestmark = [pytest.mark.long, pytest.mark.process, pytest.mark.timeout(600)]


@pytest.mark.parametrize("kind", cutoff.KINDS)
def test_cut_off_file_system_keeps_all_acknowledged_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    if why := cutoff.unavailable(kind):
        pytest.skip(why)
    assert cutoff.campaign(tmp_path, kind, 3, 1) == 0, capsys.readouterr().err


@pytest.mark.parametrize("kind", cutoff.KINDS)
def test_journal_without_a_flush_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if why := cutoff.unavailable(kind):
        pytest.skip(why)
    monkeypatch.setattr(cutoff, "STALL_MAX_S", 2)
    program = ("-m", "tests.process.broken", "forget")
    assert cutoff.campaign(tmp_path, kind, 5, 1, program) == 1
    assert " lost=0 " not in capsys.readouterr().out
