"""Tests of qmctl dlq export against a real daemon."""

import base64
import json
from pathlib import Path

import pytest

from qmgr_client.message import decode
from qmgr_tools.cli.failure import Failure
from qmgr_tools.dlq import export
from tests.qmgr_client.scripted import delivery
from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_export_has_all_of_each_and_no_file_is_replaced(
    qm: Qmctl, bad: str, tmp_path: Path
) -> None:
    file = tmp_path / "dead.jsonl"
    ended = qm("dlq", "export", str(file), "--queue", bad)
    assert (ended.code, ended.out) == (0, f"wrote 3 messages of {bad} to {file}\n")
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [base64.b64decode(row["body_base64"]) for row in found] == [b"a", b"bb", b"\xff"]
    assert (found[1]["dead"]["reason"], found[1]["headers"]) == ("no-amount", {"n": 2})
    assert [row["uid"] for row in found] == [
        row["uid"] for row in qm("dlq", "ls", "--queue", bad, "-o", "json").json
    ]
    assert qm("dlq", "export", str(file), "--queue", bad).code == 1
    assert len(file.read_text().splitlines()) == 3


def test_export_takes_what_the_selector_says(qm: Qmctl, bad: str, tmp_path: Path) -> None:
    file = tmp_path / "dead.jsonl"
    words = ["dlq", "export", str(file), "--queue", bad, "--where", "n = 2", "-o", "json"]
    assert qm(*words).json == {"queue": bad, "file": str(file), "messages": 1}
    assert qm("dlq", "export", str(tmp_path / "no" / "x"), "--queue", bad).code == 1


def test_export_keeps_the_place_in_a_group(qm: Qmctl, queue: str, tmp_path: Path) -> None:
    for number, words in ((1, []), (2, ["--last"])):
        qm("put", queue, "x", "--group", "N1", "--number", str(number), *words)
    for _ in range(2):
        assert qm("group", "skip", queue, "N1", "--yes").code == 0
    file = tmp_path / "dead.jsonl"
    assert qm("dlq", "export", str(file), "--where", f"dead_queue = '{queue}'").code == 0
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["group"], row["number"], row["last"], row["persistent"]) for row in found] == [
        ("N1", 1, False, True),
        ("N1", 2, True, True),
    ]
    help_ = qm("dlq", "export", "--help").out
    assert [key for key in found[0] if key not in help_] == []


def test_dead_letter_that_a_browse_cuts_is_not_exported_in_part() -> None:
    message = decode(delivery(b"start"), "DEAD", 3)
    export._kept(message)
    with pytest.raises(Failure, match=r"cannot export message QM1\.1 of DEAD"):
        export._kept(message._replace(cut_bytes=5_000_000))
