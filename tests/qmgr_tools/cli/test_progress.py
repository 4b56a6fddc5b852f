import io
from contextlib import redirect_stderr

import pytest

from qmgr_tools.cli import progress


class Terminal(io.StringIO):
    """A buffer that behaves like the output to a terminal."""

    def isatty(self) -> bool:
        """Returns true, like a terminal."""
        return True


@pytest.mark.parametrize("total", [None, 100])
def test_nothing_moves_without_a_terminal(total: int | None) -> None:
    with redirect_stderr(io.StringIO()) as stream:
        with progress.bar("Q", total) as bar:
            bar.advance(5, 50)
        with progress.spinner("works"):
            pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize("total", [None, 100])
def test_bar_counts_on_a_terminal(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream, progress.bar("ORDERS", total) as bar:
        bar.advance(1_000, 40)
        bar.advance(234, 10)
    assert "ORDERS" in stream.getvalue()
    assert "1,234" in stream.getvalue()


def test_spinner_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream, progress.spinner("the daemon works"):
        pass
    assert "the daemon works" in stream.getvalue()


def test_counter_goes_up_to_its_total_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream, progress.counted("rows", 1_000) as advance:
        advance(400)
        advance(600)
    assert "1000/1000" in stream.getvalue()
    with redirect_stderr(io.StringIO()) as silent, progress.counted("rows", 9) as advance:
        advance(9)
    assert silent.getvalue() == ""


def test_bytes_are_shown_of_how_many_under_words_that_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream, progress.sized("begins") as show:
        show("is written", 1 << 20, 4 << 20)
    assert "is written" in stream.getvalue()
    assert "1.0/4.0 MiB" in stream.getvalue()
    with redirect_stderr(io.StringIO()) as silent, progress.sized("begins") as show:
        show("is written", 1, 2)
    assert silent.getvalue() == ""


def test_step_that_runs_is_named_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream, progress.steps(3) as step:
        step("depth: 1 of 2 tasks", 1)
        step("latency [bold]", 2)
    assert "latency [bold]" in stream.getvalue()
    assert "2/3" in stream.getvalue()
    with redirect_stderr(io.StringIO()) as silent, progress.steps(3) as step:
        step("depth", 1)
    assert silent.getvalue() == ""
