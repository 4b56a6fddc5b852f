import io
import threading
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


class Steps:
    """The progress of a transfer that advances at each call, and ends *over* after the last."""

    def __init__(self, *found: tuple[int, int]) -> None:
        self.over = threading.Event()
        self._found = list(found)

    def __call__(self) -> tuple[int, int]:
        """Returns the next progress."""
        if len(self._found) == 1:
            self.over.set()
            return self._found[0]
        return self._found.pop(0)


def test_long_transfer_has_a_bar_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "POLL_S", 0.001)
    mib = 1 << 20
    steps = Steps((0, 0), (mib, 4 * mib), (2 * mib, 4 * mib), (3 * mib, 4 * mib), (0, 0))
    with redirect_stderr(Terminal()) as stream, progress.transfer("ORDERS", steps):
        assert steps.over.wait(10)
    assert "ORDERS" in stream.getvalue()
    assert "3.0/4.0 MiB" in stream.getvalue()


def test_short_transfer_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "POLL_S", 0.001)
    steps = Steps((1, 2), (0, 0))
    with redirect_stderr(Terminal()) as stream, progress.transfer("ORDERS", steps):
        assert steps.over.wait(10)
    with redirect_stderr(io.StringIO()) as silent, progress.transfer("ORDERS", Steps((1, 2))):
        pass
    assert stream.getvalue() == silent.getvalue() == ""
