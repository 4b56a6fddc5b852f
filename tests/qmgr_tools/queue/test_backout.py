"""Tests of the note about a backout queue that does not exist yet."""

from pathlib import Path

import pytest

from qmgr_tools.queue import backout, system
from tests.qmgr_tools.conftest import Qmctl


def test_those_missing_are_neither_queues_nor_aliases_of_any() -> None:
    given = [{"backout_queue": name} for name in ("B", "A", "Q", "ALIAS", "LOST", "B", "")]
    aliases = {"ALIAS": "Q", "LOST": "NONE", "DEAD": system.DEAD_LETTERS}
    assert list(backout.missing([*given, {}], ["Q"], aliases)) == ["A", "B", "LOST"]
    assert list(backout.missing([{"backout_queue": "DEAD"}], [], aliases)) == []


def note(name: str) -> str:
    return f"note: {backout.words(name)}\n"


@pytest.mark.process
def test_missing_backout_queue_is_told_of_where_it_is_given(qm: Qmctl, queue: str) -> None:
    bad, work = f"{queue}.BAD", f"{queue}.WORK"
    assert note(bad) == (
        f"note: backout queue {bad} does not exist; until it is created, dead letters go to "
        "SYSTEM.DEAD.LETTERS\n"
    )
    for words in (
        ["create", work, "--backout-queue", bad],
        ["alter", queue, "--backout-queue", bad, "--dry-run"],
        ["alter", queue, "--backout-queue", bad],
    ):
        ended = qm("queue", *words)
        assert (ended.code, ended.err) == (0, note(bad)), words
    assert qm("template", "set", f"{queue}.T.*", "--backout-queue", bad).err == note(bad)
    assert qm("queue", "create", f"{queue}.T.1").err == note(bad)
    qm("queue", "create", bad, "--alias-of", f"{queue}.NONE")
    assert qm("queue", "alter", queue, "--backout-queue", bad).err == note(bad)
    qm("queue", "create", f"{queue}.NONE")
    assert qm("queue", "alter", queue, "--backout-queue", bad).err == ""
    assert qm("queue", "alter", queue, "--backout-queue", "default").err == ""


@pytest.mark.process
def test_missing_backout_queue_is_told_of_by_apply(qm: Qmctl, queue: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "some.toml", f"{queue}.BAD"
    said = f'[queues."{queue}"]\nbackout_queue = "{bad}"\n'
    for more, err in (("", note(bad)), (f'[queues."{bad}"]\n', "")):
        file.write_text(said + more)
        for dry in (["--dry-run"], []):
            ended = qm("apply", "-f", str(file), *dry)
            assert (ended.code, ended.err) == (0, err)
