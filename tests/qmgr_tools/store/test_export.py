import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qmgr_tables.tables.registry import TABLES
from qmgr_tools.cli.failure import Exit
from qmgr_tools.store import export
from tests.qmgr_tables.exported import rows_in, rows_read, tree
from tests.qmgr_tables.fixtures import snapshot
from tests.qmgr_tools.conftest import QMCTL, Daemon, OnTerminal, Qmctl

__all__ = ["snapshot"]


def test_what_was_added_is_told_by_queue(qmctl: Qmctl, snapshot: Path, tmp_path: Path) -> None:
    words = ("export", "--path", str(snapshot), "--to", str(tmp_path / "out"))
    ended = qmctl(*words)
    assert (ended.code, ended.err) == (0, "")
    head, *lines, last = [line.split("\t") for line in ended.out.splitlines()]
    assert head == ["TABLE", "QUEUE", "QUEUE MANAGER", "ROWS", "BYTES", "FILES"]
    assert ["messages", "MANY", "QM1", "2500"] in [line[:4] for line in lines]
    assert last[0].startswith("added 2,519 rows in 6 files (")
    before = tree(tmp_path / "out")
    ended = qmctl(*words)
    assert (ended.code, ended.out) == (0, f"no new rows: {tmp_path}/out is up to date\n")
    assert tree(tmp_path / "out") == before


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_export_of_nothing_says_that_there_is_nothing_to_read(
    qmctl: Qmctl, own_daemon: Daemon, tmp_path: Path, format: str
) -> None:
    where, shots = ("-c", own_daemon.unix), tmp_path / "shots"
    words = ("export", "--path", f"{shots}/*", "--to", f"{tmp_path}/lake", "--format", format)
    shots.mkdir()
    assert qmctl(*where, "snapshot", "create", f"{shots}/1").code == 0
    for _ in range(2):
        ended = qmctl(*words)
        assert ended.out == f"nothing to export: no file was written to {tmp_path}/lake\n"
        why = "no rows of table messages were found"
        assert ended.err == f"{tmp_path}/lake/messages has no files yet: {why}\n"
    qmctl(*where, "queue", "create", "Q")
    qmctl(*where, "put", "Q", "x")
    assert qmctl(*where, "snapshot", "create", f"{shots}/2").code == 0
    assert qmctl(*words).err == ""
    assert qmctl(*words).out == f"no new rows: {tmp_path}/lake is up to date\n"


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_json_has_the_documented_keys(
    qmctl: Qmctl, snapshot: Path, tmp_path: Path, format: str
) -> None:
    words = ("export", "--path", str(snapshot), "--to", str(tmp_path), "--format", format)
    found = qmctl(*words, "-o", "json").json
    assert {key: found[key] for key in ("to", "format", "full")} == {
        "to": str(tmp_path),
        "format": format,
        "full": False,
    }
    (table,) = found["tables"]
    assert table["rows"] == sum(row["rows"] for row in table["queues"]) == 2_519
    assert table["files"] == len(list(tmp_path.rglob("*.parquet")))
    assert table["bytes"] == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    said = qmctl("export", "--help").out
    keys = (*found, *table, *table["queues"][0])
    assert [key for key in keys if key not in said] == []
    assert rows_in(tmp_path / "messages", format) == rows_read(snapshot)


def test_options_are_those_of_the_tables(qmctl: Qmctl, snapshot: Path, tmp_path: Path) -> None:
    chosen = ("--queues", "ALL,TIMES", "--queues-pattern", "A.*", "--states", "ready")
    without = ("--no-payload", "--no-verify", "--max-body-bytes", "9", "--full")
    ended = qmctl("export", "--path", str(snapshot), "--to", str(tmp_path), *chosen, *without)
    assert ended.code == 0
    rows = rows_in(tmp_path / "messages", "parquet")
    assert {(row["queue"], row["state"], row["body"]) for row in rows} == {("ALL", "ready", None)}


def test_fault_has_its_exit_code(qmctl: Qmctl, snapshot: Path, tmp_path: Path) -> None:
    def ended(
        *more: str, path: Path | str = snapshot, to: Path = tmp_path / "out"
    ) -> tuple[int, str]:
        found = qmctl("export", "--path", str(path), "--to", str(to), *more)
        assert found.out == ""
        return found.code, found.err

    for words, what in (
        (("--queues", "ALLL"), "option queues: queue ALLL not found in "),
        (("--table", "mesages"), "'mesages' is not a valid table -- did you mean messages?"),
        (("--states", "redy"), "'redy' is not a valid state -- did you mean ready?"),
        (("--queues-pattern", "("), "'(' is not a valid regular expression"),
        (("--max-body-bytes", "-1"), "'-1' is not an integer"),
    ):
        code, err = ended(*words)
        assert (code, what in err) == (Exit.USAGE, True), err
    for wrong in (
        "",
        "--url x:1 --path y",
        "--url x:1 --table messages",
        "--url x:1 --full",
        "--path y --cursor c",
    ):
        assert qmctl("export", "--to", str(tmp_path), *wrong.split()).code == Exit.USAGE
    code, err = ended(path=tmp_path / "none")
    assert code == Exit.FAILED
    assert err.startswith("error: cannot export messages to ")
    assert "none: not found -- check the path, or make a snapshot" in err
    assert qmctl("export", "--path", str(snapshot), "--to", str(tmp_path / "out")).code == 0
    code, err = ended("--full")
    assert (code, "export to another directory" in err) == (Exit.REFUSED, True)


def test_a_damaged_snapshot_is_named(qmctl: Qmctl, snapshot: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(snapshot, tmp_path / "bad"))
    with (bad / "data.mdb").open("r+b") as file:
        file.write(b"damage")
    ended = qmctl("export", "--path", str(bad), "--to", str(tmp_path / "out"))
    assert ended.code == Exit.FAILED
    assert f"{bad}/data.mdb: damaged" in ended.err
    words = ("--path", str(snapshot), "--path", str(tmp_path / "none"), "--on-damaged", "skip")
    ended = qmctl("export", *words, "--to", str(tmp_path / "out"))
    assert ended.code == 0
    assert ended.err.startswith(f"skipped: {tmp_path}/none: not found; check the path")
    ended = qmctl("export", *words, "--to", str(tmp_path / "out"), "-o", "json")
    assert len(ended.json["tables"][0]["skipped"]) == 1


def test_without_pyarrow_it_says_what_to_install(
    qmctl: Qmctl, snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("qmgr_tables")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = qmctl("export", "--path", str(snapshot), "--to", str(tmp_path))
    assert ended.code == Exit.FAILED
    assert "pyarrow is not installed -- install it: pip install '.[tables]'" in ended.err


@pytest.mark.long
def test_a_full_disk_is_told_and_leaves_nothing_half(snapshot: Path, tmp_path: Path) -> None:
    """A limit on file sizes simulates a full disk."""
    words = [*QMCTL, "export", "--path", str(snapshot), "--to", str(tmp_path)]
    limited = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)),
    )
    assert limited.returncode == Exit.FAILED
    assert "messages: File too large -- check the disk, and run the export again" in limited.stderr
    assert list(tmp_path.rglob("_partial*")) == []
    subprocess.run(words, check=True, capture_output=True)
    assert rows_in(tmp_path / "messages", "parquet") == rows_read(snapshot)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_without_the_right_to_write_is_told(
    qmctl: Qmctl, snapshot: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o500)
    ended = qmctl("export", "--path", str(snapshot), "--to", str(tmp_path))
    assert (ended.code, "Permission denied -- let this user" in ended.err) == (Exit.FAILED, True)


def test_tables_are_offered_by_name() -> None:
    assert export.tables("") == list(TABLES)


@pytest.mark.process
def test_it_can_be_read_on_a_terminal(
    on_terminal: OnTerminal, snapshot: Path, tmp_path: Path
) -> None:
    ended = on_terminal("export", "--path", str(snapshot), "--to", str(tmp_path / "out"))
    assert ended.code == 0
    assert "SYSTEM.DEAD.LETTERS" in ended.out
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", ended.out)
    lines = [line for line in re.split("[\r\n]+", shown) if not line.startswith("added ")]
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.process
def test_history_comes_from_a_queue_manager_that_runs(
    qm: Qmctl, queue: str, daemon: Daemon, tmp_path: Path
) -> None:
    qm("queue", "alter", queue, "--accounting", "on")
    qm("put", queue, "x")
    words = ("export", "--url", daemon.unix, "--to", str(tmp_path), "--queues", queue)
    unnamed = qm(*words)
    assert unnamed.code == 2
    assert "--url requires --cursor" in unnamed.err
    ended = qm(*words, "--cursor", "lake")
    assert (ended.code, ended.err) == (0, "")
    assert [row["event"] for row in rows_in(tmp_path / "history", "parquet")] == ["put"]
    assert "lake\t" in qm("history", "show").out
    assert qm("history", "delete", "lake").code == 0
