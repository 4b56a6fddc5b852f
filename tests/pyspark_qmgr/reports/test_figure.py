import re
from datetime import timedelta
from xml.etree import ElementTree

import pytest

from pyspark_qmgr.reports import figure
from pyspark_qmgr.reports.report import Column, Kind, Part, Plot, Row
from tests.pyspark_qmgr.reports import made

HOSTILE = '<script>alert("$x^2$")</script>&'
COLUMNS = (
    Column("queue", Kind.TEXT, "which"),
    Column("size", Kind.BYTES, "the size"),
    Column("hour", Kind.TIME, "when"),
    Column("a_p50_ms", Kind.MS, "half"),
    Column("a_p99_ms", Kind.MS, "nearly all"),
    Column("depth", Kind.COUNT, "how many"),
)
BARS = Plot(("queue",), ("depth",), "messages")
POINTS = Plot(("queue",), ("a_p50_ms", "a_p99_ms"), "time", is_log=True)
LINES = Plot(("queue",), ("depth",), "messages an hour", x="hour")
HISTOGRAM = Plot(("size",), ("depth",), "messages", in_order=True)


def drawn(plot: Plot, rows: list[Row], salt: str = "x") -> str:
    return figure.svg(Part("", "a row", COLUMNS, ("queue",), lambda _: "title", plot), rows, salt)


def rows(count: int = 3) -> list[Row]:
    return [
        {
            "queue": f"Q{n}" if n else HOSTILE,
            "size": 1 << n,
            "depth": n * 10,
            "a_p50_ms": 10.0**n,
            "a_p99_ms": 20.0 * 10**n,
            "hour": made.START + timedelta(hours=n * 2),
        }
        for n in range(count)
    ]


def words(svg: str) -> list[str]:
    return [
        "".join(text.itertext())
        for text in ElementTree.fromstring(svg).iter()
        if text.tag.endswith("text")
    ]


@pytest.mark.parametrize("plot", [BARS, POINTS, LINES, HISTOGRAM])
def test_figure_is_well_formed_and_has_the_colours_of_the_page(plot: Plot) -> None:
    found = drawn(plot, rows())
    assert found.startswith("<svg")
    assert "currentColor" in found
    assert figure.INK not in found
    assert "<script" not in found
    assert not re.findall(r"(?:href|src)=\"(?!#)", found)
    assert plot.axis in words(found)


@pytest.mark.parametrize("plot", [BARS, POINTS, LINES])
def test_name_is_drawn_as_it_is(plot: Plot) -> None:
    """The figure does not interpret a name as markup or as a formula."""
    assert HOSTILE in words(drawn(plot, rows()))


def test_axis_over_powers_of_ten_has_plain_words() -> None:
    found = words(drawn(POINTS, rows(6)))
    assert {"10 ms", "1 s"} <= set(found)
    assert [word for word in found if "$" in word] == [HOSTILE]
    assert {"p50", "p99"} <= set(found)


def test_ids_of_two_figures_differ() -> None:
    ids = [set(re.findall(r'id="([^"]*)"', drawn(BARS, rows(), salt))) for salt in ("a", "b")]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])


def test_same_rows_are_the_same_figure() -> None:
    assert drawn(POINTS, rows()) == drawn(POINTS, rows())


def test_nothing_is_no_figure() -> None:
    assert drawn(BARS, []) == ""
    assert drawn(BARS, [{**rows(1)[0], "depth": None}]) == ""


@pytest.mark.parametrize("value", [0, 1, 10**15, -3])
@pytest.mark.parametrize("plot", [BARS, LINES, HISTOGRAM])
def test_one_row_is_a_figure_whatever_its_value(plot: Plot, value: int) -> None:
    assert drawn(plot, [{**rows(1)[0], "depth": value}])


def test_single_hour_is_shown_within_its_day() -> None:
    found = words(drawn(LINES, [{**rows(1)[0], "hour": made.START}]))
    assert {"06:00", "12:00"} <= set(found)
    assert "2025" not in found


def test_missing_hours_count_as_nothing() -> None:
    hour = timedelta(hours=1)
    points = [(made.START + 3 * hour, 5.0), (made.START, 2.0)]
    assert figure.with_gaps(points, 0) == (
        [made.START + n * hour for n in (0, 1, 2, 3)],
        [2.0, 0, 0, 5.0],
    )


def test_long_label_is_cut() -> None:
    assert figure.label_of(BARS, {"queue": "x" * 99}, {"queue": Kind.TEXT}) == "x" * 35 + "…"
    assert figure.label_of(BARS, {"queue": None}, {"queue": Kind.TEXT}) == ""
