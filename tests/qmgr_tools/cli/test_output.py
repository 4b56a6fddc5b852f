import io
import json
import os
import re
from contextlib import redirect_stdout

import pytest

from qmgr_tools.cli import output

COLUMNS = (output.text("queue"), output.count("ready"), output.size("bytes"))
ROWS: list[output.Row] = [{"queue": "A", "ready": 12, "bytes": 2048}, {"queue": "B@NYC"}]


class Terminal(io.StringIO):
    """A buffer that behaves like the output to a terminal."""

    def isatty(self) -> bool:
        """Returns true, like a terminal."""
        return True

    @property
    def lines(self) -> list[str]:
        """Returns the lines of the output, without styles and trailing blanks."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue())
        return [line.rstrip() for line in text.splitlines()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 60 columns without colours, which receives stdout."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_table_is_tabs_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(COLUMNS, ROWS)
    assert capsys.readouterr().out == "QUEUE\tREADY\tBYTES\nA\t12\t2 KiB\nB@NYC\t\t\n"


def test_table_is_aligned_on_a_terminal(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.table(COLUMNS, ROWS)
    assert terminal.lines == ["QUEUE  READY  BYTES", "A         12  2 KiB", "B@NYC"]


LINKS = (output.text("link"), output.count("waiting"), output.long_text("error"))


def test_long_text_goes_below_its_row_where_the_table_is_too_wide(terminal: Terminal) -> None:
    error = "the queue manager that answered is HUB, not NYC; is the address right?"
    rows = [{"link": "NYC", "waiting": 7, "error": error}, {"link": "HUB", "waiting": 0}]
    with redirect_stdout(terminal):
        output.table(LINKS, rows)
    assert terminal.lines == [
        "LINK  WAITING",
        "NYC         7",
        "    the queue manager that answered is HUB, not NYC; is the",
        "    address right?",
        "HUB         0",
    ]


def test_table_may_be_indented_on_a_terminal(terminal: Terminal) -> None:
    rows = [{"link": "NYC", "waiting": 7, "error": "so it is, " * 7}]
    with redirect_stdout(terminal):
        output.table(LINKS, rows, indent=2)
    assert terminal.lines == [
        "  LINK  WAITING",
        "  NYC         7",
        "      so it is, so it is, so it is, so it is, so it is, so",
        "      it is, so it is,",
    ]


SENTENCE = [("down: ", "bold"), ("nobody answers there\x1b[1m, neither now nor the last time", "")]


def test_sentence_is_folded_on_a_terminal(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.words(SENTENCE, 2, 4)
        output.words([("qmctl " + "x" * 60, "")], 2, is_whole=True)
    assert terminal.lines == [
        "  down: nobody answers there\\x1b[1m, neither now nor the",
        "    last time",
        "  qmctl " + "x" * 60,
    ]


def test_sentence_is_a_line_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    output.words(SENTENCE, 2, 4)
    said = "  down: nobody answers there\\x1b[1m, neither now nor the last time\n"
    assert capsys.readouterr().out == said


def test_long_text_stays_in_its_row_where_there_is_room(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.table(LINKS, [{"link": "NYC", "waiting": 7, "error": "refused"}])
    assert terminal.lines == ["LINK  WAITING  ERROR", "NYC         7  refused"]


def test_text_is_folded_to_the_terminal_and_numbers_are_not(terminal: Terminal) -> None:
    columns = (output.text("queue"), output.text("kind"), output.count("ready"))
    with redirect_stdout(terminal):
        output.table(columns, [{"queue": "Q" * 64, "kind": "transmission", "ready": 1_000_000}])
    assert terminal.lines == [
        "QUEUE" + " " * 32 + "  KIND            READY",
        "Q" * 37 + "  transmission  1000000",
        "Q" * 27,
    ]


def test_copied_text_stays_on_one_line(terminal: Terminal) -> None:
    columns = (output.whole("uid"), output.text("queue"), output.text("kind"))
    uid = "WAREHOUSE.1795265697240073"
    with redirect_stdout(terminal):
        output.table(columns, [{"uid": uid, "queue": "Q" * 40, "kind": "local"}])
    assert terminal.lines == [
        "UID" + " " * 25 + "QUEUE" + " " * 22 + "KIND",
        f"{uid}  {'Q' * 25}  local",
        " " * 28 + "Q" * 15,
    ]


def test_empty_table_has_its_titles(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.table(COLUMNS, [])
    assert terminal.lines == ["QUEUE  READY  BYTES"]


def test_no_color_is_heard(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.table((output.text("state"),), [{"state": "refused"}])
        output.facts((output.text("state"),), {"state": "up"})
    assert "\x1b[3" not in terminal.getvalue()


def test_state_is_coloured(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    with redirect_stdout(terminal):
        output.table((output.text("state"),), [{"state": "refused"}])
    assert "\x1b[1;31mrefused" in terminal.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_cells_cannot_steer_the_terminal(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(stream):
        output.table((output.text("body"),), [{"body": "\x1b]0;title\x07[bold]\n\tx"}])
    assert "\x1b]" not in stream.getvalue()
    assert "\\x1b]0;title\\x07[bold]\\n\\tx" in stream.getvalue()


def test_facts_leave_out_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    output.facts(COLUMNS, {"queue": "A", "ready": 0, "bytes": None})
    assert capsys.readouterr().out == "queue\tA\nready\t0\n"


def test_document_and_line_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": "ü\x1b", "number": 5, "nothing": None}
    output.document(value)
    output.line(value)
    said = capsys.readouterr().out
    assert "ü" in said
    assert "\x1b" not in said
    *document, line = said.splitlines()
    assert json.loads(os.linesep.join(document)) == json.loads(line) == value


def test_note_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.note("aside")
    output.say("result")
    assert capsys.readouterr() == ("result\n", "aside\n")


def test_facts_are_not_cut_on_the_smallest_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "5")
    with redirect_stdout(terminal):
        output.facts((output.text("store_used_bytes"), output.text("queue")), ROWS[0])
        output.facts((output.text("store_used_bytes"),), {"store_used_bytes": "8 KiB"})
    assert terminal.lines == ["queue  A", "store used bytes  8 KiB"]


def test_json_is_ascii_where_the_encoding_lacks_a_character(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for encoding, shown in [("ascii", '"\\u20ac"'), ("utf-8", '"\u20ac"')]:
        paper = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr("sys.stdout", paper)
        output.line("\u20ac")
        output.document("\u20ac")
        paper.seek(0)
        assert paper.read() == f"{shown}\n{shown}\n"
