import io
import json
import os
import re
from contextlib import redirect_stdout

import pytest

from qmgr_tools import output

COLUMNS = (output.text("queue"), output.count("ready"), output.size("bytes"))
ROWS: list[output.Row] = [{"queue": "A", "ready": 12, "bytes": 2048}, {"queue": "B@NYC"}]


class Terminal(io.StringIO):
    """What is shown on a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True

    @property
    def lines(self) -> list[str]:
        """What is shown, without styles and the blanks at the ends of lines."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue())
        return [line.rstrip() for line in text.splitlines()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal 60 wide, without colours; redirect_stdout writes to it."""
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


def test_table_is_cut_to_the_terminal_but_its_names_and_numbers_are_not(
    terminal: Terminal,
) -> None:
    columns = (output.text("queue"), output.count("ready"), output.text("error"))
    with redirect_stdout(terminal):
        output.table(columns, [{"queue": "Q" * 30, "ready": 1_000_000, "error": "e" * 200}])
    line = terminal.lines[1]
    assert len(line) <= 60
    assert line.startswith("Q" * 30 + "  1000000  eeeee")
    assert line.endswith("e…")


def test_names_that_are_wider_than_the_terminal_are_whole(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.table((output.text("queue"), output.count("ready")), [{"queue": "Q" * 64}])
    assert "Q" * 64 in terminal.lines


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
