"""Selects the contents of qmctl top: the view, the ordered rows, and the columns that fit.

The functions are pure. If there is not enough room, columns are removed one after the other. One
column grows to fill unused room.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from qmgr_tools.cli import filter as filters
from qmgr_tools.cli import output
from qmgr_tools.cli.failure import Failure
from qmgr_tools.cli.output import Column, Row
from qmgr_tools.top.model import Frame

GAP = 1  # gap between columns; each column has one more cell for the mark of the order
NAME_MIN, TEXT_MIN = 18, 8  # minimum widths of names and other texts
NAMES = ("queue", "link", "name")
TREND = "trend"
BARS = "▁▂▃▄▅▆▇█"


def rate_text(value: float) -> str:
    """Returns a rate as text, as in "0", "4.5" or "9,759"."""
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:,.0f}"


def count_text(value: int) -> str:
    """Returns a number with thousands separators."""
    return f"{value:,}"


def bars(values: Sequence[int], width: int) -> str:
    """Returns the last *width* values as bars, relative to the highest value."""
    shown = values[-width:] if width > 0 else ()
    top = max(shown, default=0)
    return "".join(BARS[-(-value * (len(BARS) - 1) // top) if top else 0] for value in shown)


def rate(key: str, title: str) -> Column:
    """Returns a column of rates."""
    return Column(key, title, rate_text, is_number=True)


def count(key: str, title: str) -> Column:
    """Returns a column of numbers."""
    return Column(key, title, count_text, is_number=True)


HEAD = (
    output.text("name", "queue manager"),
    output.text("software"),
    output.duration("uptime_ms", "up for"),
    output.count("messages"),
    output.count("leased"),
    output.size("store_used_bytes", "store used"),
    output.count("store_percent", "store used, %"),
    output.text("store_full", "puts refused"),
    output.count("cpu_percent", "cpu, %"),
    rate("turn_rate", "turns/s"),
    rate("put_rate", "puts/s"),
    rate("get_rate", "deliveries/s"),
    rate("ack_rate", "acks/s"),
)


@dataclass(frozen=True, slots=True)
class View:
    """A table whose ``removable`` columns are removed in order if there is not enough room.

    ``optional`` columns are shown only if a row has a value.
    """

    name: str
    key: str  # key of the column that identifies a row for the cursor
    columns: tuple[Column, ...]
    sort: str
    removable: tuple[str, ...]
    grows: str
    optional: frozenset[str] = frozenset()


QUEUES = View(
    "queues",
    "queue",
    (
        output.text("queue"),
        count("ready", "READY"),
        count("leased", "LEASED"),
        rate("put_rate", "PUT/S"),
        rate("get_rate", "GET/S"),
        rate("ack_rate", "ACK/S"),
        output.size("bytes"),
        output.duration("oldest_ms", "OLDEST"),
        count("consumers", "CONS"),
        output.text("state"),
        Column(TREND, "DEPTH"),
    ),
    "ready",
    (TREND, "oldest_ms", "bytes", "consumers", "leased", "ack_rate", "get_rate"),
    TREND,
    frozenset({"oldest_ms"}),
)
LINKS = View(
    "links",
    "key",
    (
        output.text("link"),
        output.text("direction", "DIR"),
        output.text("state"),
        count("waiting", "BACKLOG"),
        output.size("waiting_bytes", "BYTES"),
        count("in_flight", "FLIGHT"),
        rate("rate", "MSG/S"),
        count("commit_id", "COMMIT"),
        output.duration("down_ms", "DOWN FOR"),
        output.duration("redial_ms", "RECONNECTS IN"),
        Column("addresses", "PEER", output.listed),
        output.text("error", "LAST ERROR"),
    ),
    "link",
    (
        "waiting_bytes",
        "redial_ms",
        "addresses",
        "direction",
        "in_flight",
        "commit_id",
        "error",
        "down_ms",
    ),
    "error",
    frozenset({"down_ms", "redial_ms", "error"}),
)
CONNECTIONS = View(
    "connections",
    "connection",
    (
        output.count("connection", "ID"),
        output.name("name"),
        output.text("kind"),
        output.name("address"),
        count("waiting", "WAITING"),
        output.size("waiting_bytes", "BYTES"),
        output.size("unsent_bytes", "UNSENT"),
        count("leased", "LEASED"),
        count("consumers", "CONS"),
        count("gets", "GETS"),
        output.duration("open_ms", "OPEN FOR"),
        output.name("software"),
    ),
    "connection",
    ("software", "gets", "unsent_bytes", "kind", "address", "waiting_bytes", "open_ms"),
    "software",
)
VIEWS = {view.name: view for view in (QUEUES, LINKS, CONNECTIONS)}


@dataclass(slots=True)
class Board:
    """The user's settings. The cursor follows its row, or stays if the row is deleted."""

    view: View = QUEUES
    # The column, and whether the highest value is first
    sorts: dict[str, tuple[str, bool]] = field(default_factory=dict)
    filters: dict[str, str] = field(default_factory=dict)
    # The key of the row, and its position
    cursors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    is_detailed: bool = False

    @property
    def sort(self) -> tuple[str, bool]:
        """The sort column, and whether the highest value comes first."""
        view = self.view
        return self.sorts.get(view.name) or (view.sort, _falls(view, view.sort))

    @property
    def filter(self) -> str:
        """The filter of the view."""
        return self.filters.get(self.view.name, "")

    def rows(self, frame: Frame) -> list[dict[str, Any]]:
        """Returns the matching rows of the view in order."""
        matches = _matcher(self.filter, self.view)
        key, falls = self.sort
        return ordered(
            [row for row in frame.rows.get(self.view.name, []) if matches(row)],
            key,
            self.view.key,
            falls=falls,
        )

    def show(self, name: str) -> None:
        """Switches to another view."""
        self.view = VIEWS[name]

    def step_view(self, step: int) -> None:
        """Switches to the next or the previous view."""
        names = list(VIEWS)
        self.show(names[(names.index(self.view.name) + step) % len(names)])

    def sort_by(self, key: str) -> None:
        """Sorts by a column. If this is already the sort column, reverses the order."""
        current, falls = self.sort
        falls = not falls if current == key else _falls(self.view, key)
        self.sorts[self.view.name] = (key, falls)

    def step_sort(self, step: int, shown: Sequence[Column]) -> None:
        """Sorts by the next or the previous of the columns *shown*."""
        keys = [column.key for column in shown if column.key != TREND]
        current = self.sort[0]
        place = keys.index(current) + step if current in keys else 0
        self.sort_by(keys[place % len(keys)])

    def reverse(self) -> None:
        """Reverses the order."""
        self.sort_by(self.sort[0])

    def cursor(self, rows: Sequence[Row]) -> int:
        """Returns the index of the cursor in *rows*."""
        key, place = self.cursors.get(self.view.name, (None, 0))
        for number, row in enumerate(rows):
            if key is not None and row[self.view.key] == key:
                return number
        return max(0, min(place, len(rows) - 1))

    def move(self, rows: Sequence[Row], place: int) -> None:
        """Moves the cursor to a row. On the first row, the cursor stays at the first position."""
        place = max(0, min(place, len(rows) - 1))
        key = rows[place][self.view.key] if place or (rows and self.is_detailed) else None
        self.cursors[self.view.name] = (key, place)


def _falls(view: View, key: str) -> bool:
    """Returns whether a column is sorted with the highest value first by default."""
    column = next(column for column in view.columns if column.key == key)
    return column.is_number and key != view.key


def ordered(rows: list[dict[str, Any]], key: str, tie: str, *, falls: bool) -> list[dict[str, Any]]:
    """Returns *rows* sorted by *key*, then by *tie*. Rows without a value come last."""
    rows = sorted(rows, key=lambda row: _rank(row[tie]))
    known = [row for row in rows if row.get(key) is not None]
    known.sort(key=lambda row: _rank(row[key]), reverse=falls)
    return known + [row for row in rows if row.get(key) is None]


def _rank(value: Any) -> Any:
    if isinstance(value, str):
        return value.casefold()
    return output.listed(value) if isinstance(value, list | tuple) else value


def fault_of(text: str, view: View) -> str:
    """Returns the reason why *text* is not a valid filter, or ""."""
    try:
        _condition(text, view)
    except Failure as failure:
        return failure.parts[1] if len(failure.parts) > 1 else str(failure)
    return ""


def _matcher(text: str, view: View) -> Callable[[Row], bool]:
    """Returns a function for the filter *text*, a condition such as "ready>0" or part of a cell."""
    try:
        condition = _condition(text, view)
    except Failure:
        return lambda row: True  # The user is still typing.
    if condition is not None:
        return condition
    part = text.strip().casefold()
    keys = [c.key for c in view.columns if not c.is_number and c.key != TREND]
    return lambda row: any(part in output.listed(row.get(key)).casefold() for key in keys)


def _condition(text: str, view: View) -> Callable[[Row], bool] | None:
    if not set("<>=") & set(text):
        return None
    return filters.condition(text, view.columns)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns that fit, and their widths."""

    columns: list[Column]
    widths: list[int]


def fit(view: View, rows: Sequence[Row], room: int) -> Fitted:
    """Returns the columns of *view* that fit into *room* cells, and their widths."""
    columns = [
        column
        for column in view.columns
        if column.key not in view.optional or any(row.get(column.key) for row in rows)
    ]
    wanted = {column.key: _width(column, rows) for column in columns}
    for removed in ("", *view.removable):
        columns = [column for column in columns if column.key != removed]
        widths = [wanted[column.key] for column in columns]
        while _total(widths) > room and (widest := _widest(columns, widths)) is not None:
            widths[widest] -= 1
        if _total(widths) <= room:
            break
    for number, column in enumerate(columns):
        if column.key == view.grows:
            widths[number] += max(0, room - _total(widths))
    return Fitted(columns, widths)


def _width(column: Column, rows: Sequence[Row]) -> int:
    """Returns the width that a column needs: one more than the longest cell or the title."""
    least = len(column.title) + 1
    if column.key == TREND:
        return max(least, TEXT_MIN)
    return max(least, *(cell_len(column.cell(row)) + 1 for row in rows), 0)


def _widest(columns: Sequence[Column], widths: Sequence[int]) -> int | None:
    """Returns the index of the widest text column that can shrink, or None."""
    texts = [
        number
        for number, column in enumerate(columns)
        if not column.is_number
        and widths[number]
        > max(NAME_MIN if column.key in NAMES else TEXT_MIN, len(column.title) + 1)
    ]
    return max(texts, key=widths.__getitem__, default=None)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
