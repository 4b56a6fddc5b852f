"""Paints the screen of qmctl top as styled lines: head, table, details, keys.

The functions are pure: the screen depends only on the frame, the board and the size.
`PaintedScreen` also records the positions of items for the mouse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from qmgr_tools.cli import humanize, output
from qmgr_tools.cli.output import STYLES, Column, Row
from qmgr_tools.link import show as link_show
from qmgr_tools.manager import connection
from qmgr_tools.queue import queue
from qmgr_tools.top.model import Frame
from qmgr_tools.top.view import (
    GAP,
    TREND,
    VIEWS,
    Board,
    Fitted,
    View,
    bars,
    count_text,
    fit,
    rate_text,
)

TABLE_MIN, DETAIL_MAX = 4, 18  # minimum lines of the table, maximum lines of the details
FALLS, RISES = "▼", "▲"
KEYS = (
    ("1 2 3", "view"),
    ("/", "filter"),
    ("< >", "sort"),
    ("r", "reverse"),
    ("p", "pause"),
    ("enter", "detail"),
    ("?", "help"),
    ("q", "quit"),
)
FILTER_KEYS = (("enter", "apply"), ("escape", "cancel"), ("", "examples: ord, ready>0"))
KEYS_GAP = 2
HELP = """\
1 2 3          show queues, links, connections
tab shift+tab  show the next view, the previous view
up down        select a row; also page up and down, home, end
enter          show or hide the details of a row
< >            sort by the previous column, the next column
r              reverse the order
/              filter by part of a name, a state or an address, or by a
               condition: ready>0, put_rate>=100; escape removes it
p space        pause or resume the screen; rates stay correct
? q            show this help; quit

A click selects a view, a row, or the column to sort by.
"""
NOUNS = {
    "queues": queue.COLUMNS,
    "links": (*link_show.COLUMNS, output.text("stream")),
    "connections": connection.COLUMNS,
}
IDS = ("connection", "queue_id")
LABEL_MAX, FACT_WIDTH = 18, 38  # widths in the details: a name, and a name with its value


@dataclass(frozen=True, slots=True)
class ScreenStatus:
    """The state of the program."""

    delay_text: str = "2 s"
    is_paused: bool = False
    is_filtering: bool = False
    lost: str = ""  # reason why the queue manager does not answer
    tries: int = 0  # number of attempts since the connection was lost


@dataclass(slots=True)
class PaintedScreen:
    """A painted screen, and the positions of its items."""

    lines: list[Text] = field(default_factory=list)
    tabs: list[tuple[int, int, str]] = field(default_factory=list)  # start, end, view
    titles: list[tuple[int, int, str]] = field(default_factory=list)  # start, end, column
    tabs_line: int = 0
    titles_line: int = 0
    first_row: int = 0  # index of the first visible row
    rows_shown: int = 0
    fitted: Fitted = field(default_factory=lambda: Fitted([], []))


def paint(
    frame: Frame, board: Board, status: ScreenStatus, width: int, height: int, top: int = 0
) -> PaintedScreen:
    """Returns the screen. *top* is the index of the first row on the previous screen."""
    page = PaintedScreen()
    page.lines = _head(frame.head, status, width)
    rows = board.rows(frame)
    page.tabs_line = len(page.lines)
    page.lines.append(_tabs(page, frame, board, len(rows), width))
    cursor = board.cursor(rows)
    detail = _detail(board, rows[cursor], width) if board.is_detailed and rows else []
    room = height - len(page.lines) - 2  # less the lines of titles and keys
    detail = detail[: max(0, room - TABLE_MIN)]
    page.rows_shown = max(0, room - len(detail))
    page.first_row = _first(top, cursor, len(rows), page.rows_shown)
    shown = rows[page.first_row : page.first_row + page.rows_shown]
    page.fitted = fit(board.view, shown, width)
    page.titles_line = len(page.lines)
    page.lines.append(_titles(page, board, width))
    for number, row in enumerate(shown, page.first_row):
        page.lines.append(_row(page.fitted, row, width, is_chosen=number == cursor))
    if not rows:
        page.lines.append(Text(_nothing(frame, board, status)[:width], style="dim"))
    page.lines += [Text() for _ in range(height - 1 - len(detail) - len(page.lines))]
    del page.lines[max(0, height - 1 - len(detail)) :]
    page.lines += [*detail, _keys(width, status)]
    del page.lines[height:]
    for line in page.lines:
        line.truncate(width)
    return page


def _first(top: int, cursor: int, count: int, shown: int) -> int:
    """Returns the first row's index such that the cursor is visible and the screen is full."""
    top = min(top, cursor, max(0, count - shown))
    return max(top, cursor - shown + 1, 0)


def _line(left: str, right: str, width: int, style: str = "") -> Text:
    room = max(0, width - cell_len(right) - 1)
    text = set_cell_size(left, room) if cell_len(left) > room else left
    gap = max(0, width - cell_len(text) - cell_len(right))
    return Text(text + " " * gap + right, style=style)


def _head(head: Row, status: ScreenStatus, width: int) -> list[Text]:
    """Returns the lines of the head: name, fill level, rates and errors."""
    every = "paused" if status.is_paused else f"every {status.delay_text}"
    who = [str(head.get("name", "")), str(head.get("software", ""))]
    if "uptime_ms" in head:
        who.append(f"up {humanize.duration(head['uptime_ms'])}")
    first = _line("  ".join(filter(None, who)), every, width)
    first.stylize("bold", 0, len(who[0]))
    if status.is_paused:
        first.stylize("bold yellow", width - len(every), width)
    lines = [first, _facts(_stored(head), width), _facts(_speeds(head), width)]
    wrong = ""
    if status.lost:
        wrong = (
            f"NOT CONNECTED, attempt {status.tries}: " if status.tries > 1 else "NOT CONNECTED: "
        )
        wrong += status.lost
    elif head.get("store_full"):
        wrong = f"PUTS ARE REFUSED: {head['store_full']}"
    lines.append(_line(wrong, "", width, "bold white on red" if wrong else ""))
    return lines


def _stored(head: Row) -> list[tuple[str, str]]:
    used = output.size("store_used_bytes").cell(head)
    percent = head.get("store_percent")
    if percent is not None:
        used += f" of {output.size('store_map_bytes').cell(head)}, {percent} %"
    return [
        ("messages", _counted(head.get("messages"))),
        ("leased", _counted(head.get("leased"))),
        ("store", used),
        ("cpu", "" if head.get("cpu_percent") is None else f"{head['cpu_percent']:.0f} %"),
    ]


def _speeds(head: Row) -> list[tuple[str, str]]:
    named = {"puts": "put_rate", "deliveries": "get_rate", "acks": "ack_rate", "turns": "turn_rate"}
    return [
        (f"{name}/s", "-" if head.get(key) is None else rate_text(head[key]))
        for name, key in named.items()
        if head
    ]


def _counted(value: Any) -> str:
    return "" if value is None else count_text(value)


def _facts(pairs: Sequence[tuple[str, str]], width: int) -> Text:
    """Returns as many names and values as fit on one line."""
    text = Text()
    for name, value in pairs:
        if not value or len(text) + len(name) + len(value) + 4 > width + 3:
            continue
        if text:
            text.append("   ")
        text.append(f"{name} ", "dim")
        text.append(value)
    return text


def _tabs(page: PaintedScreen, frame: Frame, board: Board, fitting: int, width: int) -> Text:
    text = Text()
    for number, name in enumerate(VIEWS, 1):
        count = len(frame.rows.get(name, []))
        is_here = name == board.view.name
        shown = f" {number} {name} {count} "
        if is_here and board.filter:
            shown = f" {number} {name} {fitting} of {count} "
        page.tabs.append((len(text), len(text) + len(shown), name))
        text.append(shown, "bold reverse" if is_here else "dim")
        text.append(" ")
    if board.filter and (room := width - len(text) - 3) > 0:
        text.append(f" / {board.filter}"[:room], "yellow")
    return text


def _titles(page: PaintedScreen, board: Board, width: int) -> Text:
    text, (key, falls) = Text(), board.sort
    for column, room in zip(page.fitted.columns, page.fitted.widths, strict=True):
        if text:
            text.append(" " * GAP)
        title = column.title + ((FALLS if falls else RISES) if column.key == key else "")
        is_right = column.is_number or column.key == TREND
        title = title.rjust(room) if is_right else title.ljust(room)
        page.titles.append((len(text), len(text) + room, column.key))
        text.append(title, "bold" + (" cyan" if column.key == key else ""))
    text.truncate(width)
    return text


def _row(fitted: Fitted, row: Row, width: int, *, is_chosen: bool) -> Text:
    text = Text(style="reverse" if is_chosen else "")
    for column, room in zip(fitted.columns, fitted.widths, strict=True):
        if text:
            text.append(" " * GAP)
        cell = _cell(column, row, room)
        style = STYLES.get(cell.strip(), "") if column.key == "state" else ""
        style = "green" if column.key == TREND else style
        text.append(cell, "" if is_chosen else style)
    text.append(" " * (width - cell_len(text.plain)))
    text.truncate(width)
    return text


def _cell(column: Column, row: Row, room: int) -> str:
    """Returns the text of a cell with a width of *room*, cut with "…" if necessary."""
    if column.key == TREND:
        return bars(row.get(TREND, ()), room).rjust(room)
    cell = column.cell(row)
    if column.is_number:
        return cell.rjust(room)
    return cell + " " * (room - cell_len(cell)) if cell_len(cell) <= room else _cut(cell, room)


def _cut(cell: str, room: int) -> str:
    return set_cell_size(cell, room - 1) + "…"


def _nothing(frame: Frame, board: Board, status: ScreenStatus) -> str:
    if frame.rows.get(board.view.name):
        return f"no row matches {board.filter!r}"
    if not frame.head:
        return "waiting for the first sample"
    return f"no {board.view.name} exist"


def _detail(board: Board, row: Row, width: int) -> list[Text]:
    """Returns the details of a row: the trend, then values in as many columns as fit."""
    title = f"── {row.get(board.view.columns[0].key)} "
    lines = [Text(title + "─" * max(0, width - cell_len(title)), style="bold")]
    if row.get(TREND):
        most = f"  highest {max(row[TREND]):,}"
        line = Text("depth".ljust(LABEL_MAX), "dim")
        line.append(bars(row[TREND], width - LABEL_MAX - len(most)), "not dim green")
        lines.append(line.append(most))
    pairs = _known(board.view, row)
    across = max(1, width // FACT_WIDTH)
    room = width // across
    short = [pair for pair in pairs if cell_len(pair[1]) < room - LABEL_MAX]
    down = -(-len(short) // across)
    for place in range(down):
        line = Text()
        for name, value in short[place::down]:
            line.append(name.ljust(LABEL_MAX), "dim")
            line.append(set_cell_size(value, room - LABEL_MAX))
        lines.append(line)
    for name, value in (pair for pair in pairs if pair not in short):
        for number, words in enumerate(wrap(value, max(1, width - LABEL_MAX))):
            lines.append(Text("" if number else name, "dim"))
            lines[-1].pad_right(LABEL_MAX - len(lines[-1]))
            lines[-1].append(words, "not dim")
    return lines[:DETAIL_MAX]


def _known(view: View, row: Row) -> list[tuple[str, str]]:
    """Returns names and values of *row*, beginning with the columns of the view."""
    nouns = {column.key: column for column in NOUNS[view.name]}
    columns = {column.key: column for column in view.columns} | nouns
    return [
        (column.title.lower(), _number(key, row[key]) or column.cell(row))
        for key, column in columns.items()
        if key != TREND and row.get(key) not in (None, "", [])
    ]


def _number(key: str, value: Any) -> str:
    is_count = type(value) is int and not key.endswith(("_ms", "bytes", "bytes_max"))
    return count_text(value) if is_count and key not in IDS else ""


def _keys(width: int, status: ScreenStatus) -> Text:
    text = Text()
    for key, does in FILTER_KEYS if status.is_filtering else KEYS:
        gap = KEYS_GAP if text else 0
        if len(text) + gap + len(key) + 1 + len(does) > width:
            break
        text.append(" " * gap)
        text.append(key, "bold cyan")
        text.append(f" {does}", "dim")
    return text
