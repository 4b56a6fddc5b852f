"""What the demo prints."""

import io

from rich.console import Console

from qmgr_tools.demo import report
from qmgr_tools.demo.flights import Mean
from qmgr_tools.demo.ledger import Ledger


def console() -> Console:
    return Console(file=io.StringIO(), width=120)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_the_table_names_losses_and_kills() -> None:
    ledger = Ledger()
    ledger.note_put(7)
    shown = console()
    report.show(shown, ledger, report.Totals(0, {"EWR": 3}, 2.0, 5, 42))
    rows = {line.strip("│| ").split("  ")[0]: line for line in text(shown).splitlines()}
    assert "1" in rows["lost"]
    assert "EWR 3" in rows["kills survived (-9)"]
    assert "turn 42" in rows["in the snapshot"]


def test_means_that_agree_say_so() -> None:
    means = {("UA", "EWR"): Mean(10, 8, 40)}
    shown = console()
    assert report.show_means(shown, means, dict(means))
    assert "5.00" in text(shown)
    assert "agree: 1 groups, 10 flights" in text(shown)


def test_means_that_differ_show_both() -> None:
    shown = console()
    found, expected = {("UA", "EWR"): Mean(9, 8, 40)}, {("UA", "EWR"): Mean(10, 8, 40)}
    assert not report.show_means(shown, found, expected)
    assert "9 != 10" in text(shown)
    assert "disagree" in text(shown)
