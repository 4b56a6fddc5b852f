"""Short runs of the campaigns of members that share a journal. Long ones run by hand."""

from pathlib import Path

import pytest

from tests.postgres import unavailable
from tests.process import crash, paused

REASON = unavailable()
pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(REASON), reason=REASON),
]


def test_killed_members_and_a_killed_server_keep_all_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crash.shared(tmp_path, 3, 7) == 0
    assert "database_kills=0" not in capsys.readouterr().out


def test_member_that_was_suspended_appends_nothing_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert paused.paused(tmp_path, 1, 1) == 0
    assert "fenced=0" not in capsys.readouterr().out


def test_record_of_a_suspended_member_is_found(tmp_path: Path) -> None:
    assert paused.paused(tmp_path, 3, 1, "no-fence") == 1
