"""The output of commands: tables and records for people, JSON for scripts.

On a terminal, tables are aligned, fit the width and are coloured unless NO_COLOR is set. Long
columns move below their row, and other text wraps, except UIDs. Only names that peers chose are
cut. Without a terminal, each row is a line of cells separated by tabs. JSON has the keys that the
help of each command lists. Sizes are in bytes, durations in milliseconds, timestamps in RFC 3339.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from qmgr_config.units import ms_text
from qmgr_tools.cli import humanize, stderr
from qmgr_tools.cli.failure import one_line

Row = Mapping[str, Any]
GAP = 2
WIDTH_MIN = 8
NAME_MAX = 64  # characters
INDENT = 4  # indent of text below a row
# The style of each state of a queue or a link.
STYLES = {
    "up": "green",
    "blocked": "yellow",
    "waiting": "yellow",
    "refused": "bold red",
    "full": "bold red",
    "no puts": "yellow",
    "no gets": "yellow",
    "closed": "yellow",
    "stopped": "dim",
    "away": "yellow",
    "no link": "red",
    "suspended": "yellow",
}


class Format(StrEnum):
    """The values of -o."""

    TABLE = "table"
    JSON = "json"


def plain(value: object) -> str:
    """Returns a cell's text, or "" for a missing value."""
    return "" if value is None else one_line(str(value))


def flag(value: object) -> str:
    """Returns "yes" or "no", or "" for a missing value."""
    return "" if value is None else "yes" if value else "no"


def listed(value: object) -> str:
    """Returns the elements of a list, separated by commas."""
    return ", ".join(map(plain, value)) if isinstance(value, list | tuple) else plain(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the key of its values, and their format."""

    key: str
    title: str
    text: Callable[[Any], str] = plain
    is_number: bool = False
    is_long: bool = False  # whether a value moves below its row if the table is too wide
    is_size: bool = False  # whether the values are numbers of bytes
    is_whole: bool = False  # whether a value stays on one line because users copy it
    shown_max: int = 0  # maximum number of characters to show in a table; 0 means all

    def shown(self, row: Row) -> str:
        """Returns the text of the cell, cut to *shown_max* characters."""
        cell = self.cell(row)
        return f"{cell[: self.shown_max - 1]}…" if 0 < self.shown_max < len(cell) else cell

    def cell(self, row: Row) -> str:
        """Returns the text of this column for *row*."""
        value = row.get(self.key)
        return "" if value is None else self.text(value)


def text(key: str, title: str = "") -> Column:
    """Returns a column of text."""
    return Column(key, title or _title(key))


def whole(key: str, title: str = "") -> Column:
    """Returns a column of values that never wrap because users copy them, such as UIDs."""
    return Column(key, title or _title(key), is_whole=True)


def long_text(key: str, title: str = "") -> Column:
    """Returns a column of sentences, which moves below its row if the table is too wide."""
    return Column(key, title or _title(key), is_long=True)


def count(key: str, title: str = "") -> Column:
    """Returns a column of whole numbers."""
    return Column(key, title or _title(key), is_number=True)


def size(key: str, title: str = "") -> Column:
    """Returns a column of sizes in bytes."""
    return Column(key, title or _title(key), humanize.size, is_number=True, is_size=True)


def duration(key: str, title: str = "") -> Column:
    """Returns a column of durations in milliseconds."""
    return Column(key, title or _title(key), humanize.duration, is_number=True)


def exact_size(key: str, title: str = "") -> Column:
    """Returns a column of configured sizes, which are shown exactly."""
    return Column(key, title or _title(key), humanize.exact_size, is_number=True, is_size=True)


def exact_duration(key: str, title: str = "") -> Column:
    """Returns a column of configured durations, which are shown exactly."""
    return Column(key, title or _title(key), ms_text, is_number=True)


def name(key: str, title: str = "", *, is_long: bool = False) -> Column:
    """Returns a column of names that peers chose. Only JSON shows long names in full.

    If *is_long*, the column moves below its row if the table is too wide.
    """
    return Column(key, title or _title(key), is_long=is_long, shown_max=NAME_MAX)


def _title(key: str) -> str:
    return key.removesuffix("_ms").replace("_", " ").upper()


def table(columns: Sequence[Column], rows: Iterable[Row], indent: int = 0) -> None:
    """Prints *rows* as a table. On a terminal, *indent* is the table's indent in characters."""
    if not sys.stdout.isatty():
        titles(columns)
        for row in rows:
            tabs(columns, row)
    else:
        cells = [[column.shown(row) for column in columns] for row in rows]
        _show_table(columns, cells, _console().width - indent, indent)


def titles(columns: Sequence[Column]) -> None:
    """Prints the heading of a table, with tabs between the titles."""
    print("\t".join(column.title for column in columns))


def tabs(columns: Sequence[Column], row: Row) -> None:
    """Prints one row of a table, with tabs between the cells."""
    print("\t".join(column.shown(row) for column in columns))


def _show_table(columns: Sequence[Column], cells: list[list[str]], room: int, indent: int) -> None:
    widths = _widths(columns, cells)
    is_wide = _total(widths) > room
    below = [n for n, column in enumerate(columns) if is_wide and column.is_long]
    inline = [n for n in range(len(columns)) if n not in below]
    shown = [columns[n] for n in inline]
    widths = _fitted(shown, [widths[n] for n in inline], room)
    console = _console(indent + _total(widths) + GAP)  # Rich cuts text that does not fit.
    part = _part(shown, widths, has_header=True)
    for line in cells:
        part.add_row(*(_styled(line[n], columns[n].key) for n in inline))
        notes = [line[n] for n in below if line[n]]
        if notes:
            console.print(_indented(part, indent))
            part = _part(shown, widths, has_header=False)
            _print_below(notes, room + indent, indent)
    if part.row_count or not cells:
        console.print(_indented(part, indent))


def _part(columns: Sequence[Column], widths: Sequence[int], *, has_header: bool) -> Any:
    """Returns a table without rows. Parts with the same widths look like one table."""
    from rich.table import Table  # The import takes 70 ms.

    part = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, GAP, 0, 0),
        show_header=has_header,
    )
    for column, width in zip(columns, widths, strict=True):
        side: Any = "right" if column.is_number else "left"
        part.add_column(column.title, justify=side, width=width, overflow="fold")
    return part


def _print_below(notes: Iterable[str], room: int, indent: int) -> None:
    console = _console()
    for words in notes:
        console.print(_indented(_styled(words), indent + INDENT), width=room, overflow="fold")


def _indented(shown: Any, indent: int) -> Any:
    from rich.padding import Padding

    return Padding(shown, (0, 0, 0, indent), expand=False) if indent else shown


def _widths(columns: Sequence[Column], cells: list[list[str]]) -> list[int]:
    """Returns the width that each column needs."""
    from rich.cells import cell_len

    return [
        max(map(cell_len, (column.title, *(line[number] for line in cells))))
        for number, column in enumerate(columns)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _fitted(columns: Sequence[Column], wanted: Sequence[int], room: int) -> list[int]:
    """Returns the width of each column, reduced to fit *room*.

    The widest text columns shrink first. Numbers and whole columns never shrink.
    """
    widths = list(wanted)
    texts = [n for n, column in enumerate(columns) if not (column.is_number or column.is_whole)]
    while _total(widths) > room and texts:
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= WIDTH_MIN:
            break
        widths[widest] -= 1
    return widths


def facts(columns: Sequence[Column], row: Row, title: str = "") -> None:
    """Prints a line for each of *columns* in which *row* has a value."""
    cells = [(column, column.cell(row)) for column in columns if column.cell(row)]
    if not sys.stdout.isatty():
        for column, cell in cells:
            print(f"{column.title.lower()}\t{cell}")
        return
    from rich.table import Table  # The import takes 70 ms.

    shown = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for column, cell in cells:
        shown.add_row(column.title.lower(), _styled(cell, column.key))
    console = _console(max((len(column.title) for column, _ in cells), default=0) + GAP + WIDTH_MIN)
    if title:
        console.print(f"[bold]{title}[/]")
    console.print(shown)


def document(value: object) -> None:
    """Prints *value* as one JSON document."""
    print(_json(value, 2))


def line(value: object) -> None:
    """Prints *value* as JSON on one line."""
    print(_json(value))


def as_line(value: object) -> str:
    """Returns *value* as one line of JSON in ASCII, for a file."""
    return json.dumps(value)


def flush() -> None:
    """Flushes standard output."""
    sys.stdout.flush()


def _json(value: object, indent: int | None = None) -> str:
    """Returns *value* as JSON, in ASCII if the output's encoding lacks a character."""
    found = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        found.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return found


def say(words: str) -> None:
    """Prints a sentence about the result."""
    print(one_line(words))


def note(words: str) -> None:
    """Writes a note, which is not part of the result, to stderr."""
    stderr.note(words)


def _styled(cell: str, key: str = "") -> Any:
    from rich.text import Text

    return Text(cell, style=STYLES.get(cell, "") if key == "state" else "")


def words(
    parts: Sequence[tuple[str, str]], first: int = 0, others: int = 0, *, is_whole: bool = False
) -> None:
    """Prints a sentence that wraps at the terminal's edge.

    Args:
        parts: The parts of the sentence, each with its style.
        first: The indent of the first line.
        others: The indent of the other lines. Without a terminal there are no other lines.
        is_whole: Whether the text must not wrap because users copy it.
    """
    from rich.text import Text

    styled = [(one_line(text), style) for text, style in parts]
    if is_whole or not sys.stdout.isatty():
        print(" " * first + "".join(text for text, _ in styled))
        return
    console = _console()
    wrapped = Text.assemble(*styled).wrap(console, max(console.width - others, WIDTH_MIN))
    for number, line in enumerate(wrapped):
        line.rstrip()
        console.print(Text(" " * (others if number else first)) + line)


def _console(width_min: int = 0) -> Any:
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, width_min)
    return console
