import re
from pathlib import Path
from typing import Any

import pytest

from qmgr_bench.report import (
    END,
    START,
    between_markers,
    draw,
    markdown,
    overview,
    publish,
    targets,
)


def entry(row: str, server: str, rate: int, **more: Any) -> dict[str, Any]:
    return {
        "row": row,
        "server": server,
        "messages_per_second": rate,
        "lowest": rate,
        "highest": rate,
        "server_cpu_us": 10.0,
        "is_cut": False,
        **more,
    }


ROWS = [
    entry("W1b", "qmgrd", 1_000),
    entry("W1b", "redis", 900, ratio=1.1111),
    entry("W1b", "rabbitmq", 800, ratio=1.25),
    entry("W4", "qmgrd", 950, beside={"W1b": 0.95}),
]
FOUND = {
    "machine": {
        "at": "2026-01-02T00:00:00Z",
        "cores": 2,
        "system": "Linux",
        "python": "3.11",
        "load_before": 0.1,
    },
    "versions": {"qmgrd": "qmgrd/1", "redis": "Redis 7"},
    "rounds": 3,
    "seconds": 3.0,
    "scale": 1,
    "rows": ROWS,
    "runs": [{"disk_sync_ms": 0.2, "flushes": 4}],
    "own": [],
}


OWN = {
    "row": "START",
    "disk_sync_ms": 0.3,
    "took_s": 9.0,
    "unit": "ms",
    "targets": [{"what": "growth", "measured": 1.2, "bound": 1.15, "unit": "", "at_least": False}],
    "figures": {
        "growth": 1.2,
        "series": [
            {"depth": 0, "start_ms": 400.5, "turns": [[1, 2]]},
            {"depth": 1_000_000, "start_ms": 480.6},
        ],
    },
    "bars": [("depth 0", 400.5, True), ("depth 1,000,000", 480.6, True)],
}


def cells(found: dict[str, Any], row: str) -> list[tuple[str, ...]]:
    return [tuple(target.cells().values()) for target in targets(found)[row]]


def test_targets_say_by_how_much_they_are_missed() -> None:
    assert cells(FOUND, "W1b") == [
        ("msg/s, relative to redis", "1.111", ">= 1", "reached"),
        ("msg/s, relative to rabbitmq", "1.25", ">= 2", "missed by 37.5 %"),
        ("CPU per message", "10 us", "<= 9 us", "missed by 11.1 %"),
    ]
    assert cells(FOUND, "W4") == [("msg/s, relative to W1b", "0.95", ">= 0.9", "reached")]
    assert cells(FOUND | {"own": [OWN]}, "START") == [
        ("growth", "1.2", "<= 1.15", "missed by 4.3 %")
    ]


def test_target_without_its_reference_is_not_judged() -> None:
    assert [what for what, *_ in cells(FOUND | {"rows": ROWS[:1]}, "W1b")] == ["CPU per message"]
    assert cells(FOUND | {"rows": ROWS[1:2]}, "W1b") == []
    assert cells(FOUND | {"rows": [entry("W4", "qmgrd", 950)]}, "W4") == []


def test_overview_has_a_line_for_each_row_of_both_kinds() -> None:
    lines = overview(FOUND | {"own": [OWN]}).splitlines()
    assert lines[2] == (
        "| W1b: put, 1 producer, 256 in flight | 1,000 | - / - | 900 (redis) | 1.111 | 1 of 3; "
        "msg/s, relative to rabbitmq: 1.25, missed by 37.5 %; "
        "CPU per message: 10 us, missed by 11.1 % |"
    )
    assert lines[3].endswith("| 950 | - / - | - | - | 1 of 1 |")
    assert lines[-1].endswith("1,000,000 | 0 of 1; growth: 1.2, missed by 4.3 % |")


def test_row_of_our_own_has_figures_series_and_targets() -> None:
    text = markdown(FOUND | {"own": [OWN], "rows": [], "runs": []}, "img")
    assert "![START](img/bench-START.svg)" in text
    assert "| figure |  |\n| --- | ---: |\n| growth | 1.2 |\n\n" in text
    assert "| depth | start_ms |\n| --- | ---: |\n| 0 | 400.5 |\n| 1,000,000 | 480.6 |\n" in text
    assert text.endswith("* growth: 1.2 (<= 1.15), missed by 4.3 %\n")
    assert "took 0.3 to 0.3 ms" in text


def test_scale_is_reported_where_no_target_is_about_it() -> None:
    assert "of 3 s, at scale 0.1 (targets are for scale 1)." in markdown(FOUND | {"scale": 0.1}, "")
    assert "at scale" not in markdown(FOUND, "")


def test_each_row_has_its_picture(tmp_path: Path) -> None:
    draw(FOUND | {"own": [OWN]}, tmp_path)
    names = [path.name for path in tmp_path.iterdir()]
    assert sorted(names) == ["bench-START.svg", "bench-W1b.svg", "bench-W4.svg"]
    assert ">400.5</text>" in (tmp_path / "bench-START.svg").read_text()
    bold = re.findall('font-weight="bold">([^<]+)<', (tmp_path / "bench-W1b.svg").read_text())
    assert bold[1:] == ["qmgrd", "1,000"]  # The title comes first. Only our bar is bold.


def test_report_has_a_line_for_each_server() -> None:
    text = markdown(FOUND, "img")
    assert "| redis | 900 | 900 - 900 |" in text
    assert "![W1b](img/bench-W1b.svg)" in text
    assert "Medians of 3 rounds of 3 s" in text


def test_text_around_the_markers_stays() -> None:
    assert between_markers(f"a\n{START}old{END}\nb", "new\n") == f"a\n{START}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="does not contain both markers"):
        between_markers(START, "new")


def test_documents_have_the_last_figures(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/benchmarks.md"):
        (tmp_path / name).write_text(f"before\n{START}\n{END}\nafter\n")
    publish(FOUND, tmp_path)
    publish(FOUND, tmp_path)
    readme = (tmp_path / "README.md").read_text()
    assert readme.count("W1b: put") == 1
    assert readme.startswith("before\n")
    assert "### W1b" in (tmp_path / "docs/benchmarks.md").read_text()
    assert (tmp_path / "docs/img/bench-W1b.svg").read_text().startswith("<svg")


def test_nothing_is_written_where_markers_are_missing(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("no markers")
    (tmp_path / "docs/benchmarks.md").write_text(f"{START}{END}")
    with pytest.raises(ValueError, match="does not contain both markers"):
        publish(FOUND, tmp_path)
    assert (tmp_path / "docs/benchmarks.md").read_text() == f"{START}{END}"
