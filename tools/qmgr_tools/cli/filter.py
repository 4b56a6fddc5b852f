"""What a list shows: --where "ready>0", --sort -ready, --columns queue,ready, --limit 20.

A condition is COLUMN OPERATOR VALUE. Operators are = != < <= > >=. Numbers are compared as numbers,
and may say "64 MiB" or "30 s" where the column is a size or a duration; text by name patterns in
which * and ? stand for anything. A row that lacks the column fits no condition on it but !=.
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from qmgr_config.units import parse_bytes, parse_count, parse_ms
from qmgr_tools.cli import completion, output
from qmgr_tools.cli.failure import Failure, usage
from qmgr_tools.cli.output import Column, Row

Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help='Which columns; "all" for all.',
        show_default=False,
        autocompletion=completion.columns,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION", help="COLUMN, OPERATOR, VALUE; repeatable.", show_default=False
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        metavar="[-]COLUMN",
        help="-COLUMN: the highest first.",
        show_default=False,
        autocompletion=completion.columns,
    ),
]
Limit = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="At most so many.", show_default=False)
]

_CONDITION = re.compile(r"\s*([a-z_]+)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_OPERATORS = f"The operators are {' '.join(_COMPARE)}"


class Listing:
    """A list as it was asked for.

    Raises:
        Failure: USAGE, before anybody is asked, a condition or a column that cannot be.
    """

    def __init__(
        self,
        known: Sequence[Column],
        default: Sequence[str],
        wanted: str | None,
        where: Sequence[str],
        sort: str | None,
        limit: int | None,
    ) -> None:
        self._columns = columns(wanted, known, default)
        self._asked = known, where, sort, limit
        self.rows([])

    def rows(self, found: Iterable[Row]) -> list[Row]:
        """Return those of *found* that are asked for, in that order."""
        return rows(found, *self._asked)

    def show(self, rows: Iterable[Row]) -> None:
        """Print *rows* as a table of the columns that are asked for."""
        output.table(self._columns, rows)


def columns(wanted: str | None, known: Sequence[Column], default: Sequence[str]) -> list[Column]:
    """Return the columns that *wanted* names, separated by commas; "all" names all of them.

    Raises:
        Failure: USAGE, there is no such column.
    """
    if wanted == "all":
        return list(known)
    names = [name.strip() for name in wanted.split(",")] if wanted else default
    return [_column(name, known) for name in names]


def _column(name: str, known: Sequence[Column]) -> Column:
    for column in known:
        if column.key == name:
            return column
    from difflib import get_close_matches  # not for --help

    names = [column.key for column in known]
    near = get_close_matches(name.lower().replace("-", "_"), names, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"take {', '.join(names)}"
    raise usage(f"there is no column {name!r}", "columns are called as in JSON", remedy)


def rows(
    found: Iterable[Row],
    known: Sequence[Column],
    where: Sequence[str],
    sort: str | None,
    limit: int | None,
) -> list[Row]:
    """Return the rows that fit every condition, in the order asked, at most *limit* of them.

    Raises:
        Failure: USAGE, a condition or a column that cannot be.
    """
    conditions = [condition(text, known) for text in where]
    fitting = [row for row in found if all(fits(row) for fits in conditions)]
    if sort:
        key = _column(sort.removeprefix("-"), known).key
        # What lacks the column comes last, whatever the direction.
        present = [row for row in fitting if row.get(key) is not None]
        present.sort(key=lambda row: row[key], reverse=sort.startswith("-"))
        fitting = present + [row for row in fitting if row.get(key) is None]
    return fitting[:limit]


def condition(text: str, known: Sequence[Column]) -> Callable[[Row], bool]:
    """Return a function that tells whether a row fits the condition *text*.

    Raises:
        Failure: USAGE.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise _no_condition(text, "it is not COLUMN OPERATOR VALUE")
    name, sign, said = match.groups()
    column = _column(name, known)
    compare = _COMPARE[sign]
    if column.is_number:
        number = _number(text, column, sign, said)
        return lambda row: compare(row[name], number) if row.get(name) is not None else sign == "!="
    if sign not in ("=", "!="):
        raise _no_condition(text, f"{name} is text, which is compared by = and !=")
    pattern = said[1:-1] if said[:1] in ("'", '"') and said[-1] == said[0] != said else said
    return lambda row: fnmatchcase(column.cell(row), pattern) == (sign == "=")


def _number(text: str, column: Column, sign: str, said: str) -> int:
    if said.startswith(("=", "<", ">", "!")):  # "=>0" is read as "=", then ">0".
        meant = f"did you mean {said[0]}{sign}? " if f"{said[0]}{sign}" in _COMPARE else ""
        raise _no_condition(text, f"{sign}{said[0]} is no operator", f"{meant}{_OPERATORS}")
    try:
        return _parser(column)(said)
    except ValueError as error:
        if " and " in said.lower():
            why = "it is one condition"
            raise _no_condition(text, why, "repeat --where for another") from None
        raise _no_condition(text, str(error)) from None


def _parser(column: Column) -> Callable[[object], int]:
    """Return what reads a number of that column, by what it shows: sizes, durations, or neither."""
    if column.key.endswith("_ms"):
        return parse_ms
    return parse_bytes if column.is_size else parse_count


def _no_condition(text: str, why: str, remedy: str = "as in --where 'ready>0'") -> Failure:
    return usage(f"--where {text!r} is no condition", why, remedy)
