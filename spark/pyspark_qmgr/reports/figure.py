"""Draws a part of a report as an SVG. Lines and text use the text colour of the page."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.report import Kind, Part, Plot, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter

WIDTH_IN = 8.4
BAR_IN = 0.3
LABEL_MAX = 36
HOUR = timedelta(hours=1)
INK = "#123456"  # placeholder for the colour of the text, which the page defines
# Okabe and Ito's palette. Colour-blind people can distinguish its colours on white and on black.
COLOURS = ("#2f8fd8", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
MARKS = "osD^vP"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 8,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "font.family": "sans-serif",
    "svg.hashsalt": "qmgr",
}


def svg(part: Part, rows: Sequence[Row], salt: str) -> str:
    """Returns the plot of *rows*, which must be limited to the labels to draw.

    Returns "" if the rows have no values.

    Args:
        part: A part with a plot.
        rows: The rows, in the order in which they are drawn.
        salt: A string that makes the ids of this figure unique on the page.
    """
    plot = part.plot
    assert plot is not None
    rows = [row for row in rows if any(row[name] is not None for name in plot.values)]
    if not rows:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        if plot.x:
            figure = _lines(part, plot, rows)
        elif plot.in_order:
            figure = _histogram(part, plot, rows)
        else:
            figure = _bars(part, plot, rows)
        assert isinstance(figure, Figure)
        held = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(held, format="svg", transparent=True, bbox_inches="tight", metadata=nothing)
    return _inlined(held.getvalue())


def _inlined(text: str) -> str:
    """Returns the SVG *text* as an element of a page."""
    start = text.index("<svg")
    text = re.sub(r"<metadata>.*?</metadata>", "", text[start:], flags=re.DOTALL)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    used = set(re.findall(r"""(?:url\(|href=["'])#([\w-]+)""", text))
    # Unused ids would be repeated in each figure of the page.
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    return text.replace(INK, "currentColor")


def _new(height_in: float) -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height_in))
    return figure, figure.add_subplot()


def label_of(plot: Plot, row: Row, kinds: Mapping[str, Kind]) -> str:
    """Returns the label of a bar or a line, with at most LABEL_MAX characters."""
    names = [cells.cell(kinds[name], row[name]) for name in plot.label if row[name] is not None]
    text = " · ".join(names)
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


def _kinds(part: Part) -> dict[str, Kind]:
    return {column.name: column.kind for column in part.columns}


def _bars(part: Part, plot: Plot, rows: Sequence[Row]) -> "Figure":
    """Draws a bar for each label, or points on one line if labels have several values."""
    kinds = _kinds(part)
    figure, axes = _new(0.9 + BAR_IN * len(rows))
    places = range(len(rows))
    for number, name in enumerate(plot.values):
        found = [row[name] for row in rows]
        colour = COLOURS[number % len(COLOURS)]
        if len(plot.values) == 1:
            axes.barh(places, [value or 0 for value in found], color=colour, height=0.7)
        else:
            beside = [place + (number - (len(plot.values) - 1) / 2) * 0.2 for place in places]
            axes.plot(
                found,
                beside,
                MARKS[number % len(MARKS)],
                color=colour,
                markersize=5,
                label=_word(name),
                clip_on=False,
            )
    if len(plot.values) == 1:
        name = plot.values[0]
        for place, row in zip(places, rows, strict=True):
            axes.annotate(
                f" {cells.cell(kinds[name], row[name])}",
                (row[name] or 0, place),
                va="center",
                fontsize=7,
            )
    else:
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.5 / (0.3 + BAR_IN * len(rows))),
            ncols=len(plot.values),
        )
        axes.grid(axis="y", color=INK, alpha=0.12)
    axes.set_yticks(list(places), [label_of(plot, row, kinds) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)  # The first row is at the top.
    _scale(plot, rows, axes.xaxis, kinds[plot.values[0]])
    axes.xaxis.set_major_formatter(_ticks(kinds[plot.values[0]]))
    axes.set_xlabel(plot.axis)
    axes.grid(axis="x", color=INK, alpha=0.15)
    axes.set_axisbelow(True)
    return figure


def _histogram(part: Part, plot: Plot, rows: Sequence[Row]) -> "Figure":
    kinds = _kinds(part)
    (name,) = plot.values
    figure, axes = _new(3.2)
    places = range(len(rows))
    axes.bar(places, [row[name] or 0 for row in rows], color=COLOURS[0], width=0.9)
    step = max(1, len(rows) // 10)
    axes.set_xticks(list(places)[::step], [label_of(plot, row, kinds) for row in rows][::step])
    axes.set_xlabel(next(c.text for c in part.columns if c.name == plot.label[0]))
    axes.set_ylabel(plot.axis)
    axes.grid(axis="y", color=INK, alpha=0.15)
    axes.set_axisbelow(True)
    return figure


def _ticks(kind: Kind) -> "Formatter":
    """Returns the formatter for an axis. Matplotlib's default shows powers of ten as formulas."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: cells.cell(kind, value))


def _lines(part: Part, plot: Plot, rows: Sequence[Row]) -> "Figure":
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    (name,) = plot.values
    kinds = _kinds(part)
    lines: dict[str, list[tuple[datetime, float]]] = {}
    for row in rows:
        lines.setdefault(label_of(plot, row, kinds), []).append((row[plot.x], row[name]))
    figure, axes = _new(3.2)
    for number, (label, points) in enumerate(lines.items()):
        times, values = with_gaps(points, 0 if kinds[name] is Kind.COUNT else math.nan)
        axes.plot(
            times,
            values,
            ".-",
            color=COLOURS[number % len(COLOURS)],
            label=label,
            linewidth=1,
            markersize=3,
        )
    _scale(plot, rows, axes.yaxis, kinds[name])
    axes.yaxis.set_major_formatter(_ticks(kinds[name]))
    locator: Any = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    _widen([row[plot.x] for row in rows], axes)
    axes.set_xlabel("hour, UTC")
    axes.set_ylabel(plot.axis)
    axes.grid(color=INK, alpha=0.15)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


def _widen(times: Sequence[Any], axes: "Axes") -> None:
    """Widens the axis to a day if the plot has a single hour.

    Otherwise, the axis would show years.
    """
    if len(set(times)) == 1:
        around: Any = (times[0] - 12 * HOUR, times[0] + 12 * HOUR)
        axes.set_xlim(around)


def with_gaps(
    points: list[tuple[datetime, float]], nothing: float
) -> tuple[list[Any], list[float]]:
    """Returns the times and the values in order, with *nothing* for missing hours."""
    filled: list[tuple[datetime, float]] = []
    for at, value in sorted(points):
        if filled and at - filled[-1][0] > HOUR:
            filled += [(filled[-1][0] + HOUR, nothing), (at - HOUR, nothing)]
        filled.append((at, value))
    return [at for at, _ in filled], [value for _, value in filled]


def _scale(plot: Plot, rows: Sequence[Row], axis: "XAxis | YAxis", kind: Kind) -> None:
    """Makes the value axis logarithmic if the values span more than two powers of ten."""
    from matplotlib.ticker import MaxNLocator

    found = [row[name] for row in rows for name in plot.values if row[name] is not None]
    some = [abs(value) for value in found if value]
    if plot.is_log and some and max(some) > 100 * min(some):
        set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
        set_scale("symlog", linthresh=min(some))
        if min(found) >= 0:
            set_limit: Any = axis.axes.set_xlim if axis.axis_name == "x" else axis.axes.set_ylim
            set_limit(0, max(some) * 2)
    else:
        axis.set_major_locator(MaxNLocator(8, integer=kind in (Kind.COUNT, Kind.BYTES)))


def _word(name: str) -> str:
    """Returns the text in the legend for the column *name*, such as p50 for queue_p50_ms."""
    percent = re.search(r"_(p\d+)_", name)
    return percent[1] if percent else name.removesuffix("_per_s").replace("_", " ")
