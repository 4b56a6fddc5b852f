"""Tests of qmctl switch-over, with daemons that share a journal in PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


@pytest.fixture
def members(journal_url: str, tmp_path: Path) -> Iterator[list[Daemon]]:
    """Two members of NYC. The first one is active."""
    started: list[Daemon] = []
    try:
        for name in ("nyc1", "nyc2"):
            directory = tmp_path / name
            directory.mkdir()
            config = directory / "qmgrd.toml"
            config.write_text(f'[journal]\nurl = "{journal_url}"\nmember = "{name}"\n')
            member = Daemon("NYC", directory)
            member.options = ["--config", str(config)]
            started.append(member)
            member.start()
        yield started
    finally:
        for member in started:
            member.program.stop()


def test_members_change_over_and_back(members: list[Daemon], qmctl: Qmctl) -> None:
    first, second = members
    every = f"{first.tcp},{second.tcp}"
    active = qmctl("status", "--wait", "30s", "-c", every, "-o", "json").json["journal"]["member"]
    other = "nyc2" if active == "nyc1" else "nyc1"
    assert qmctl("queue", "create", "Q", "-c", every).code == 0
    assert qmctl("put", "Q", "hello", "-c", every).code == 0
    ended = qmctl("switch-over", "-c", first.tcp if active == "nyc1" else second.tcp, "-o", "json")
    assert ended.code == 0, ended.err
    assert (ended.json["member"], ended.json["former"]) == (other, active)
    epoch = ended.json["epoch"]
    assert ended.json["why"] == "an operator switched over"
    assert "hello" in qmctl("get", "Q", "-c", every, "--wait", "10s").out
    back = qmctl("switch-over", "--to", active, "-c", every)
    assert back.out.startswith(f"{active} is active at ")
    events = qmctl("events", "-c", every).out
    assert f"member={other}, why=an operator switched over, epoch={epoch}" in events
    shown = qmctl("status", "-c", every).out
    assert f"active member\t{active}\n" in shown
    assert f"\n{other}\tstandby\t" in shown


def test_members_that_cannot_become_active_are_refused(members: list[Daemon], qmctl: Qmctl) -> None:
    every = ",".join(member.tcp for member in members)
    ended = qmctl("switch-over", "--to", "nyc9", "-c", every)
    assert ended.code == 6
    assert "cannot switch over -- member nyc9 is unknown (NO_STANDBY)" in ended.err


def test_local_journal_has_no_other_member(qm: Qmctl) -> None:
    ended = qm("switch-over")
    assert ended.code == 6
    assert "the journal of this queue manager is local" in ended.err
