import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Exit
from tests.qmgr_tools.conftest import QMCTL, Daemon, Ended, Qmctl


@pytest.fixture
def started(daemon: Daemon) -> Callable[..., Ended]:
    """Runs qmctl as a process, with the streams in *closes* closed, as by ">&-"."""

    def call(*words: str, closes: str = "", **environment: str) -> Ended:
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closes}', "sh", *QMCTL, *words],
            input=b"",
            capture_output=True,
            timeout=30,
            env=os.environ | {"QMCTL_CONNECT": daemon.unix} | environment,
        )
        encoding = environment.get("PYTHONIOENCODING", "utf-8")
        return Ended(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))

    return call


pytestmark = pytest.mark.process


@pytest.mark.parametrize("words", [["--version"], ["queue", "ls"], ["status", "-o", "json"]])
def test_output_that_is_closed_is_told(words: list[str], started: Callable[..., Ended]) -> None:
    ended = started(*words, closes=">&-")
    assert ended.code == Exit.FAILED
    what, why = "cannot write the output", "Bad file descriptor"
    if "json" in words:
        error = json.loads(ended.err)["error"]
        assert (error["what"], error["why"]) == (what, why)
    else:
        assert ended.err == f"error: {what} -- {why}\n"


def test_message_that_nobody_can_have_seen_stays(
    queue: str, qm: Qmctl, started: Callable[..., Ended]
) -> None:
    qm("put", queue, "kept")
    for body_only in ([], ["--body-only"]):
        assert started("get", queue, *body_only, closes=">&-").code == Exit.FAILED
    assert qm("get", queue, "--body-only").out == "kept"


def test_code_tells_all_where_errors_are_closed(started: Callable[..., Ended]) -> None:
    assert started("queue", "show", "NO_SUCH", closes="2>&-") == (Exit.NOT_FOUND, "", "")


def test_input_that_is_closed_is_empty(queue: str, started: Callable[..., Ended]) -> None:
    ended = started("put", queue, "--lines", "-o", "json", closes="<&-")
    assert (ended.code, ended.json["messages"]) == (0, 0)
    ended = started("queue", "purge", queue, closes="<&-")
    assert ended.code == Exit.USAGE
    assert "there is no terminal to ask for confirmation" in ended.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_missing_in_the_encoding_are_escaped(
    encoding: str, queue: str, qm: Qmctl, started: Callable[..., Ended]
) -> None:
    qm("put", queue, "5 \u20ac", "--header", "k=\u2192")
    ended = started("browse", queue, PYTHONIOENCODING=encoding)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("5 \\u20ac\n")
    ended = started("browse", queue, "-o", "json", PYTHONIOENCODING=encoding)
    assert json.loads(ended.out)[0]["headers"] == {"k": "\u2192"}


def test_path_that_is_not_utf8_is_shown(tmp_path: Path, started: Callable[..., Ended]) -> None:
    directory = os.fsdecode(bytes(tmp_path) + b"/\xff")
    ended = started("store", "verify", directory)
    assert ended.code == Exit.FAILED
    assert "\\udcff: no store found" in ended.err
