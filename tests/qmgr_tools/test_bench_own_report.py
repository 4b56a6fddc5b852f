from typing import Any

import pytest

from qmgr_tools.bench_own_report import markdown, number, series_csv, target_cells
from qmgr_tools.bench_own_result import at_least, at_most


def run(row: str, measured: float, **figures: Any) -> dict[str, Any]:
    machine = {"at": "2026-11-21T10:00:00Z", "cores": 2, "system": "Linux", "python": "3.11",
               "load_before": 0.1}  # fmt: skip
    return {
        "row": row, "about": f"about {row}", "machine": machine, "disk_sync_ms": 0.12,
        "seconds": 4, "scale": 1, "rounds": 3,
        "targets": [at_least("rate", measured, 0.9).facts()], "figures": figures,
    }  # fmt: skip


def test_newest_run_of_each_row_is_shown_in_their_order() -> None:
    text = markdown([run("B", 0.5), run("A", 0.95), run("B", 0.9)], ["A", "B", "C"])
    assert [line for line in text.splitlines() if line.startswith("| ") and "rate" in line] == [
        "| A | rate | 0.95 | >= 0.9 | reached |", "| B | rate | 0.9 | >= 0.9 | reached |",
    ]  # fmt: skip
    assert text.index("## A") < text.index("## B")
    assert "## C" not in text
    assert "medians of 3 rounds of 4 s at scale 1." in text


def test_figures_and_series_are_tables() -> None:
    series = [{"depth": 10, "put_us": 8.25, "turns": [[1, 2]]}, {"depth": 1_000_000, "put_us": 8.5}]
    text = markdown([run("A", 1, growth=1.031, series=series, none=[])], ["A"])
    assert "| figure |  |\n| --- | --- |\n| growth | 1.031 |\n\n" in text
    assert text.endswith("| depth | put_us |\n| --- | --- |\n| 10 | 8.25 |\n| 1,000,000 | 8.5 |\n")


def test_series_can_be_plotted() -> None:
    series = [{"depth": 10, "put_us": 8.25, "turns": [[1, 2]]}, {"depth": 1_000, "put_us": 8.5}]
    assert series_csv({"growth": 1, "series": series}) == "depth,put_us\n10,8.25\n1000,8.5\n"
    assert series_csv({"growth": 1, "turns": [[1, 2]]}) == ""


@pytest.mark.parametrize(
    ("target", "cells"),
    [
        (at_least("rate", 0.81, 0.9), ("rate", "0.81", ">= 0.9", "missed by 10 %")),
        (at_most("start", 812.3456, 900, "ms"), ("start", "812.346 ms", "<= 900 ms", "reached")),
        (at_most("lookups", 3, 0), ("lookups", "3", "<= 0", "missed by 3")),
    ],
)  # fmt: skip
def test_target_tells_by_how_much_it_was_missed(target: Any, cells: tuple[str, ...]) -> None:
    assert target_cells(target.facts()) == cells


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (7, "7"), (0.5, "0.5"), (2.0, "2"), (98_304, "98,304")]
)
def test_number_has_the_digits_that_say_something(value: float, text: str) -> None:
    assert number(value) == text
