from pathlib import Path
from typing import Any

import pytest

from qmgr_tools.bench.report import END, START, between_markers, markdown, publish, verdicts


def entry(row: str, server: str, rate: int, **more: Any) -> dict[str, Any]:
    return {
        "row": row, "server": server, "messages_per_second": rate, "lowest": rate,
        "highest": rate, "server_cpu_us": 10.0, "is_cut": False, **more,
    }  # fmt: skip


ROWS = [
    entry("W1b", "qmgrd", 1_000), entry("W1b", "redis", 900, ratio=1.11),
    entry("W1b", "rabbitmq", 800, ratio=1.25), entry("W4", "qmgrd", 950),
]  # fmt: skip
FOUND = {
    "machine": {"at": "2026-01-02T00:00:00Z", "cores": 2, "system": "Linux", "python": "3.11",
                "load_before": 0.1},
    "versions": {"qmgrd": "qmgrd/1", "redis": "Redis 7"}, "rounds": 3, "seconds": 3.0,
    "rows": ROWS, "runs": [{"disk_sync_ms": 0.2, "flushes": 4}],
}  # fmt: skip


def test_verdicts_say_by_how_much_a_target_is_missed() -> None:
    found = [(v["target"], v["is"], v["verdict"]) for v in verdicts(ROWS, "W1b")]
    assert found == [
        ("1.0 x redis", "1.11x", "reached"),
        ("2.0 x rabbitmq", "1.25x", "38 % short"),
        ("at most 9 us CPU", "10.00 us", "10 % short"),
    ]
    assert [v["is"] for v in verdicts(ROWS, "W4")] == ["0.95x"]


def test_target_without_its_peer_is_not_judged() -> None:
    assert [v["target"] for v in verdicts(ROWS[:1], "W1b")] == ["at most 9 us CPU"]
    assert verdicts(ROWS[1:2], "W1b") == []


def test_report_has_a_line_for_each_server() -> None:
    text = markdown(FOUND, "img")
    assert "| redis | 900 | 900 - 900 |" in text
    assert "![W1b](img/bench-W1b.svg)" in text
    assert "Medians of 3 rounds of 3 s" in text


def test_text_around_the_markers_stays() -> None:
    assert between_markers(f"a\n{START}old{END}\nb", "new\n") == f"a\n{START}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="not both there"):
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
    with pytest.raises(ValueError, match="not both there"):
        publish(FOUND, tmp_path)
    assert (tmp_path / "docs/benchmarks.md").read_text() == f"{START}{END}"
