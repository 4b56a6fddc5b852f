"""A short run of the crash loop with users and TLS. ``make crash`` runs long ones."""

from pathlib import Path

import pytest

from tests.process import crash
from tests.process.guest_load import GuestLoad

pytestmark = [pytest.mark.long, pytest.mark.process, pytest.mark.timeout(900)]


def test_killed_daemons_keep_all_messages_and_rights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crash.unlinked(tmp_path, 3, 1) == 0
    summary = capsys.readouterr().out
    assert "let_in=0 shut_out=0" in summary
    assert "denied=0" not in summary


def test_right_that_is_not_checked_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guests believe that they have no rights, so each success counts as a fault."""

    async def no_change(self: GuestLoad, *_: object) -> None:
        async with self.node.connect("operator") as owner:
            await owner.admin.grant_create(["put"], "queue", "GUEST", user="guest")

    monkeypatch.setattr(GuestLoad, "_change", no_change)
    assert crash.unlinked(tmp_path, 1, 1) == 1
    assert "guests of EDGE: let in: " in capsys.readouterr().err
