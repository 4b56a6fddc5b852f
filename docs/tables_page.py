"""Generates the page docs/tables.md from the tables. tests/docs/test_tables_page.py checks it."""

import re

import pyarrow as pa

from qmgr_tables.table import Table
from qmgr_tables.tables.registry import TABLES

HEAD = """\
# Tables

Spark and `qmctl export` read these tables from a snapshot. To read a table with Spark, use
`option("table", NAME)`. The page [Spark](spark.md) describes all options. Every column may be null,
and is null if it does not apply. Within a version of a table, existing columns never change. New
columns are added at the end.

If rows of a store were damaged before the snapshot was taken, queries still succeed. The column
`damage` describes the damage, and unknown values are null. In the table `messages`, the state of
such a row is `damaged`.

If Spark's setting `spark.sql.python.filterPushdown.enabled` is on, a filter on a column marked with
\u2713 reduces the rows that are read. Options always reduce the rows.
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
    """Returns the text of the page."""
    listed = ["| table | version | content |", "|---|---|---|"]
    for table in TABLES.values():
        listed.append(f"| [`{table.name}`](#{table.name}) | {table.version} | {table.text} |")
    return "\n".join([HEAD, *listed, "", *(_section(table) for table in TABLES.values())])


def _section(table: Table) -> str:
    sentences = [f"{_sentence(table.text)}."]
    if table.takes:
        sentences.append(
            f"Supports the options {_listed([f'`{option}`' for option in table.takes])}."
        )
    if table.time:
        sentences.append(f"`since` and `until` apply to `{table.time}`.")
    rows = ["| column | type | filter | description |", "|---|---|---|---|"]
    for column in table.columns:
        mark = "\u2713" if column.name in table.pushed else ""
        rows.append(
            f"| `{column.name}` | {_type(column.type)} | {mark} | {_escaped(column.text)} |"
        )
    return "\n".join([f"## {table.name}", "", " ".join(sentences), "", *rows, ""])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _type(type_: pa.DataType) -> str:
    return _WORDS[str(type_)]


def _escaped(text: str) -> str:
    """Returns *text* with the special characters of Markdown escaped."""
    return re.sub(r"([\\*_|<>#~])", r"\\\1", text)
