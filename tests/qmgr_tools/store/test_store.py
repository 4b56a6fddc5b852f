import os
import re
import shutil
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Exit
from qmgrd.core.layout import keys
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl
from tests.qmgrd.snapshot import stores


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.filled(tmp_path_factory.mktemp("stores") / "sound")


@pytest.fixture
def damaged(sound: Path, tmp_path: Path) -> Path:
    store = Path(shutil.copytree(sound, tmp_path / "store"))
    stores.change(store, stores.flip(stores.ready(), -20), stores.delete(keys.SPACE_UID))
    return store


def test_sound_store_is_said_to_be_so(qmctl: Qmctl, sound: Path) -> None:
    ended = qmctl("store", "verify", str(sound))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith(" rows, 20 messages\n")
    assert ended.out.startswith("sound: ")


def test_each_finding_has_a_line_with_key_and_meaning(qmctl: Qmctl, damaged: Path) -> None:
    ended = qmctl("store", "verify", str(damaged))
    assert ended.code == Exit.FAILED
    head, *lines = [line.split("\t") for line in ended.out.splitlines()]
    assert head == ["FAULT", "KEY", "WHAT", "EFFECT"]
    assert [line[0] for line in lines] == ["record", "index-missing"]
    assert lines[0][1] == keys.message(1, keys.LANE_READY, 4, 3).hex()
    assert lines[0][2] == "message 3 of priority 4 on queue Q: its checksum is wrong"
    assert "set aside" in lines[0][3]
    assert f"{damaged}/store/data.mdb is damaged -- 1 index-missing, 1 record" in ended.err


def test_json_has_the_documented_keys(qmctl: Qmctl, sound: Path, damaged: Path) -> None:
    for store in (sound, damaged):
        found = qmctl("store", "verify", str(store), "-o", "json").json
        assert found["sound"] is (store == sound)
        assert len(found["findings"]) == sum(found["counts"].values())
    said = qmctl("store", "verify", "--help").out
    assert [key for key in (*found, *found["findings"][0]) if key not in said] == []
    found = qmctl("store", "stat", str(sound), "-o", "json").json
    said = qmctl("store", "stat", "--help").out
    rows = (*found["kinds"][0], *found["queues"][0])
    assert [key for key in (*found, *rows) if key not in said] == []


def test_listing_ends_at_the_limit_and_says_so(qmctl: Qmctl, damaged: Path) -> None:
    ended = qmctl("store", "verify", str(damaged), "--limit", "1")
    assert len(ended.out.splitlines()) == 2
    assert "1 more finding; to show more: --limit" in ended.err


def test_pages_that_are_damaged_keep_lmdb_away(qmctl: Qmctl, damaged: Path) -> None:
    data = damaged / "store/data.mdb"
    middle = data.stat().st_size // 8192 * 4096
    with data.open("r+b") as file:
        file.seek(middle)
        file.write(os.urandom(3 * 4096))
    ended = qmctl("store", "verify", str(damaged))
    assert ended.code == Exit.FAILED
    assert "the rows were not" in ended.err
    assert "pages\t" in ended.out


def test_stat_tells_what_fills_the_store(qmctl: Qmctl, sound: Path) -> None:
    facts, kinds, queues = qmctl("store", "stat", str(sound)).out.split("\n\n")
    assert "queue manager\tQM1\n" in facts
    assert "store limit\t1 GiB\n" in facts
    assert "messages\t20\t" in kinds
    assert queues.splitlines()[1].startswith("Q\tlocal\t7\t0\t")
    assert queues.splitlines()[1].endswith("\t4:5 0:2")
    assert queues.splitlines()[2].startswith("LATE\tlocal\t4\t1\t")
    assert queues.splitlines()[3].startswith("@NYC\ttransmission\t")
    assert queues.splitlines()[3].endswith("\t")  # A transmission queue shows no priorities.
    ended = qmctl("store", "stat", str(sound), "--top", "1")
    assert "5 more queues; to show more: --top" in ended.err


def test_directory_without_a_store_is_refused(qmctl: Qmctl, tmp_path: Path) -> None:
    for words in ("verify", "stat"):
        ended = qmctl("store", words, str(tmp_path / "none"))
        assert ended.code == Exit.FAILED
        assert "no store found" in ended.err


@pytest.mark.process
def test_store_of_a_running_daemon_is_refused(qmctl: Qmctl, own_daemon: Daemon) -> None:
    for words in ("verify", "stat"):
        ended = qmctl("store", words, str(own_daemon.data_dir))
        assert ended.code == Exit.REFUSED
        assert f"a queue manager is using {own_daemon.data_dir} (process " in ended.err
        assert "qmctl snapshot create" in ended.err
    snapshot = own_daemon.data_dir / "shot"
    assert qmctl("snapshot", "create", str(snapshot), "-c", own_daemon.unix).code == 0
    assert qmctl("store", "verify", str(snapshot)).code == 0
    own_daemon.program.stop()
    assert qmctl("store", "verify", str(own_daemon.data_dir)).code == 0


@pytest.mark.process
def test_findings_can_be_read_on_a_terminal(on_terminal: OnTerminal, damaged: Path) -> None:
    ended = on_terminal("store", "verify", str(damaged))
    assert "\n    message 3 of priority 4 on queue Q: its checksum is wrong" in ended.out
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", ended.out)
    assert [line for line in re.split("[\r\n]+", shown) if len(line) > 100] == []
