"""Options of lists: --where "ready>0", --sort -ready, --columns queue,ready, --limit 20.

A condition is COLUMN OPERATOR VALUE. Operators are = != < <= > >=. Numeric columns compare numbers;
a size or a duration may have a unit, as in "64 MiB" or "30 s". Text columns match patterns with the
wildcards * and ?. A row without a value in the column matches only != conditions.
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
        help='The columns to show, or "all".',
        show_default=False,
        autocompletion=completion.columns,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Show only rows that match COLUMN OPERATOR VALUE. Repeatable.",
        show_default=False,
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        metavar="[-]COLUMN",
        help="Sort by COLUMN. With -COLUMN the highest value comes first.",
        show_default=False,
        autocompletion=completion.columns,
    ),
]
Limit = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Show at most N rows.", show_default=False)
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


_OPERATORS = f"the operators are {' '.join(_COMPARE)}"


class Listing:
    """The columns, conditions, order and limit of a list.

    Raises:
        Failure: USAGE if a condition or column is invalid. No request has been sent in this case.
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
        """Returns the rows of *found* that match, in the requested order."""
        return rows(found, *self._asked)

    def show(self, rows: Iterable[Row]) -> None:
        """Prints *rows* as a table of the requested columns."""
        output.table(self._columns, rows)


def columns(wanted: str | None, known: Sequence[Column], default: Sequence[str]) -> list[Column]:
    """Returns the columns named by *wanted*, a list separated by commas, or "all".

    Raises:
        Failure: USAGE if a column does not exist.
    """
    if wanted == "all":
        return list(known)
    names = [name.strip() for name in wanted.split(",")] if wanted else default
    return [_column(name, known) for name in names]


def _column(name: str, known: Sequence[Column]) -> Column:
    for column in known:
        if column.key == name:
            return column
    from difflib import get_close_matches  # The import would slow down --help.

    names = [column.key for column in known]
    near = get_close_matches(name.lower().replace("-", "_"), names, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"use one of: {', '.join(names)}"
    raise usage(f"column {name!r} does not exist", "column names are the JSON keys", remedy)


def rows(
    found: Iterable[Row],
    known: Sequence[Column],
    where: Sequence[str],
    sort: str | None,
    limit: int | None,
) -> list[Row]:
    """Returns at most *limit* rows that match every condition, in the requested order.

    Raises:
        Failure: USAGE if a condition or column is invalid.
    """
    conditions = [condition(text, known) for text in where]
    matching = [row for row in found if all(matches(row) for matches in conditions)]
    if sort:
        key = _column(sort.removeprefix("-"), known).key
        # Rows without the column come last in both directions.
        present = [row for row in matching if row.get(key) is not None]
        present.sort(key=lambda row: row[key], reverse=sort.startswith("-"))
        matching = present + [row for row in matching if row.get(key) is None]
    return matching[:limit]


def condition(text: str, known: Sequence[Column]) -> Callable[[Row], bool]:
    """Returns a function that checks whether a row matches the condition *text*.

    Raises:
        Failure: USAGE if the condition is invalid.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise _invalid_condition(text, "it does not have the form COLUMN OPERATOR VALUE")
    name, sign, value = match.groups()
    column = _column(name, known)
    compare = _COMPARE[sign]
    if column.is_number:
        number = _number(text, column, sign, value)
        return lambda row: compare(row[name], number) if row.get(name) is not None else sign == "!="
    if sign not in ("=", "!="):
        raise _invalid_condition(text, f"{name} is text, which supports only = and !=")
    is_quoted = value[:1] in ("'", '"') and value[-1] == value[0] != value
    pattern = value[1:-1] if is_quoted else value
    return lambda row: fnmatchcase(column.cell(row), pattern) == (sign == "=")


def _number(text: str, column: Column, sign: str, value: str) -> int:
    if value.startswith(("=", "<", ">", "!")):  # "=>0" is parsed as "=" and ">0".
        swapped = f"{value[0]}{sign}"
        near = f"did you mean {swapped}? " if swapped in _COMPARE else ""
        why = f"{sign}{value[0]} is not an operator"
        raise _invalid_condition(text, why, f"{near}{_OPERATORS}")
    try:
        return _parser(column)(value)
    except ValueError as error:
        if " and " in value.lower():
            why = "each --where accepts one condition"
            raise _invalid_condition(text, why, "repeat --where for each condition") from None
        raise _invalid_condition(text, str(error)) from None


def _parser(column: Column) -> Callable[[object], int]:
    """Returns the function that parses a size, a duration or a number for *column*."""
    if column.key.endswith("_ms"):
        return parse_ms
    return parse_bytes if column.is_size else parse_count


def _invalid_condition(text: str, why: str, remedy: str = "example: --where 'ready>0'") -> Failure:
    return usage(f"invalid condition --where {text!r}", why, remedy)
