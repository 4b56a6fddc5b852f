"""The page docs/tables.md, from the tables themselves. tests/docs/test_tables_page.py holds it."""

import re

import pyarrow as pa

from qmgr_tables.table import Table
from qmgr_tables.tables.registry import TABLES

HEAD = """\
# Tables

What `option("table", NAME)` reads of a snapshot; [Spark](spark.md) says how, and has the other
options. Each column may be null, and is where there is nothing to say. Within a version of a table
no column is changed; new ones come at the end.

Rows of a store that rotted before the snapshot was taken stop no query: column `damage` says what
is wrong, and what cannot be known is null. Of messages it is their state, `damaged`.

A filter on a column marked with \u2713 spares reading, if Spark's
`spark.sql.python.filterPushdown.enabled` is on; options do in any case.
"""
_WORDS = {
    "string": "string",
    "int32": "int",
    "int64": "long",
    "bool": "boolean",
    "binary": "binary",
    "timestamp[us, tz=UTC]": "timestamp",
    "map<string, string>": "map",
}


def page() -> str:
    """Return the page."""
    listed = ["| table | version | |", "|---|---|---|"]
    for table in TABLES.values():
        listed.append(f"| [`{table.name}`](#{table.name}) | {table.version} | {table.text} |")
    return "\n".join([HEAD, *listed, "", *(_section(table) for table in TABLES.values())])


def _section(table: Table) -> str:
    said = [f"{_sentence(table.text)}."]
    if table.takes:
        said.append(f"It takes {_listed([f'`{option}`' for option in table.takes])}.")
    if table.time:
        said.append(f"`since` and `until` are held against `{table.time}`.")
    rows = ["| column | type | | |", "|---|---|---|---|"]
    for column in table.columns:
        mark = "\u2713" if column.name in table.pushed else ""
        rows.append(
            f"| `{column.name}` | {_type(column.type)} | {mark} | {_escaped(column.text)} |"
        )
    return "\n".join([f"## {table.name}", "", " ".join(said), "", *rows, ""])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _type(type_: pa.DataType) -> str:
    return _WORDS[str(type_)]


def _escaped(text: str) -> str:
    """Return *text* with what Markdown would take for its own."""
    return re.sub(r"([\\*_|<>#~])", r"\\\1", text)
