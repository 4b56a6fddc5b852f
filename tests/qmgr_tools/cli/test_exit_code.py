import errno
import subprocess
import sys

import pytest
import typer

from qmgr_tools.cli import exit_code
from qmgr_tools.cli.failure import Exit, Failure
from tests.qmgr_tools.conftest import OnTerminal, Qmctl


def raising(error: BaseException) -> int:
    def run() -> None:
        raise error

    return exit_code.code_of(run)


def test_code_is_what_the_command_returns_or_all_is_well() -> None:
    assert exit_code.code_of(lambda: 3) == 3
    assert exit_code.code_of(lambda: None) is Exit.OK


def test_failure_is_one_line_and_has_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(Failure(Exit.REFUSED, "cannot", "it is full", "drain it")) is Exit.REFUSED
    assert capsys.readouterr() == ("", "error: cannot -- it is full -- drain it\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_who_is_interrupted_knows(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(error) is Exit.INTERRUPTED
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", [["connection", "close", "x"], ["get", "Q", "--count", "x"]])
def test_invalid_number_is_reported_briefly(words: list[str], qmctl: Qmctl) -> None:
    ended = qmctl(*words)
    assert ended.code == Exit.USAGE
    assert len(ended.err.partition(" -- ")[0]) < 60


def test_misuse_leads_to_the_help_and_words_of_a_message_to_quotes(qmctl: Qmctl) -> None:
    for words, remedy in (
        (["get", "Q", "R"], "see: qmctl get --help"),
        (["put", "Q", "--frob"], "see: qmctl put --help"),
        (["put", "Q", "two", "words"], "if the message has spaces, quote it: 'two words'"),
    ):
        ended = qmctl(*words)
        assert (ended.code, ended.err.endswith(f" -- {remedy}\n")) == (Exit.USAGE, True)


def test_option_that_is_misspelled_is_told_its_nearest(qmctl: Qmctl) -> None:
    for words, meant in (
        (["export", "--tabel", "x"], "--tabel; did you mean --table? -- "),
        (["put", "Q", "--prioriti", "3"], "--prioriti; did you mean --priority? -- "),
        (
            ["user", "create", "bob", "--password", "secret"],
            "--password; use --password-file FILE, --generate or --no-password -- ",
        ),
    ):
        assert f"error: no such option: {meant}" in qmctl(*words).err


def test_file_that_a_bug_forgot_is_not_taken_for_the_output() -> None:
    with pytest.raises(FileNotFoundError):
        raising(FileNotFoundError(errno.ENOENT, "No such file", "/nowhere"))


def test_output_that_cannot_be_written_is_told() -> None:
    program = (
        "import sys\nfrom qmgr_tools.cli.exit_code import "
        "code_of\nsys.exit(code_of(lambda: print('x' * 100_000)))\n"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == Exit.FAILED
    assert done.stderr == "error: cannot write the output -- No space left on device\n"


@pytest.mark.process
def test_terminal_has_what_why_and_remedy_on_lines_of_their_own(on_terminal: OnTerminal) -> None:
    lines = on_terminal("get", "NO_SUCH", COLUMNS="60").out.splitlines()
    assert lines[0] == "error: cannot get from NO_SUCH"
    assert all(len(line) <= 60 for line in lines)
