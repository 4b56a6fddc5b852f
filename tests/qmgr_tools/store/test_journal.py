"""Moves of a journal, as commands between two runs of the real daemon."""

from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from qmgr_client.errors import Duplicate
from qmgr_tools.cli.failure import Exit
from tests.qmgr_tools.conftest import Daemon, Qmctl


def bodies(daemon: Daemon, count: int) -> list[bytes]:
    """Consumes *count* messages from queue Q."""
    with connect(daemon.tcp, wait_ms=30_000) as qm:
        found = []
        for _ in range(count):
            message = qm.get("Q")
            assert message is not None
            found.append(message.body)
            qm.ack(message)
        return found


def test_journal_moves_to_a_server_and_back(
    qmctl: Qmctl, own_daemon: Daemon, tmp_path: Path, journal_url: str
) -> None:
    """A repeated put is still known after each move."""
    there = ["journal", "move", str(tmp_path), "--url", journal_url, "--to", "server"]
    back = [*there[:-1], "file"]
    with connect(own_daemon.tcp, wait_ms=30_000) as qm:
        qm.admin.queue_create("Q")
        for number in range(6):
            qm.put("Q", b"%d" % number, key=f"order-{number}")
    assert qmctl(*there).code == Exit.REFUSED
    own_daemon.program.stop()
    assert "local file already" in qmctl(*back).err
    moved = qmctl(*there)
    assert (moved.code, moved.err) == (0, "")
    assert moved.out.startswith("moved the journal of OWN to the server: it continues after")
    again = qmctl(*there)
    assert again.code == Exit.REFUSED
    assert "on a server already" in again.err

    settings = tmp_path / "qmgrd.toml"
    settings.write_text(f'[journal]\nurl = "{journal_url}"\n')
    own_daemon.options = ["--config", str(settings)]
    own_daemon.start()
    assert bodies(own_daemon, 2) == [b"0", b"1"]
    with connect(own_daemon.tcp, wait_ms=30_000) as qm:
        with pytest.raises(Duplicate):
            qm.put("Q", b"other", key="order-3")
        qm.put("Q", b"6", key="order-6")
    refused = qmctl(*back)
    assert refused.code == Exit.REFUSED
    own_daemon.program.stop()
    moved = qmctl(*back, "-o", "json")
    assert moved.code == 0, moved.err
    assert moved.json["queue_manager"] == "OWN"
    assert qmctl(*back).code == 0  # An interrupted move may be repeated.

    own_daemon.options = []
    own_daemon.start()
    assert bodies(own_daemon, 5) == [b"2", b"3", b"4", b"5", b"6"]
    own_daemon.program.stop()
    assert qmctl(*there).code == 0  # The log that was moved away does not prevent another move.


def test_errors_of_a_move_have_their_own_words(
    qmctl: Qmctl, own_daemon: Daemon, tmp_path: Path
) -> None:
    own_daemon.program.stop()
    move = ["journal", "move", str(tmp_path), "--to", "server", "--url"]
    away = qmctl(*move, "postgresql://127.0.0.1:1/none")
    assert away.code == Exit.UNAVAILABLE
    assert "the server of the journal is away" in away.err
    invalid = qmctl(*move, "postgresql://a b")
    assert invalid.code == Exit.FAILED
    assert "journal.url is not valid" in invalid.err
    missing = qmctl("journal", "move", str(tmp_path / "none"), "--to", "file", "--url", "x=y")
    assert missing.code == Exit.FAILED
    assert "no store found" in missing.err
