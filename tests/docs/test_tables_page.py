"""Tests that docs/tables.md matches the code of the tables."""

from pathlib import Path

import pytest

from docs.tables_page import page
from qmgr_tables.options import NAMES
from qmgr_tables.stream.options import ONLY
from qmgr_tables.tables.registry import TABLES

DOCS = Path(__file__).parents[2] / "docs"


def test_page_matches_the_tables(pytestconfig: pytest.Config) -> None:
    """`--rewrite` updates the page."""
    if pytestconfig.getoption("rewrite"):
        (DOCS / "tables.md").write_text(page())
    assert (DOCS / "tables.md").read_text() == page(), "pytest --rewrite tests/docs"


def test_tables_are_found() -> None:
    columns = sum(len(table.columns) for table in TABLES.values())
    assert len(TABLES) >= 12, f"found only {len(TABLES)} tables"
    assert columns >= 250, f"found only {columns} columns"


@pytest.mark.parametrize("name", TABLES)
def test_each_column_is_listed_once_in_its_section(name: str) -> None:
    section = page().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for column in TABLES[name].columns:
        assert section.count(f"\n| `{column.name}` | ") == 1


def test_options_of_a_table_are_listed() -> None:
    section = page().partition("\n## queues\n")[2].partition("\n## ")[0]
    assert "Supports the options `queues` and `queuesPattern`." in section
    assert "`since` and `until` apply to `at`." in page()


def test_pages_list_each_option_once() -> None:
    text = (DOCS / "spark.md").read_text() + (DOCS / "history.md").read_text()
    names = {*NAMES, *ONLY} - {"paths"}  # pages show only the list form of this option
    assert len(names) >= 20, f"found only {len(names)} options"
    for name in names:
        rows = [
            line
            for line in text.splitlines()
            if line.startswith("| `") and f"`{name}`" in line.split(" | ")[0]
        ]
        assert len(rows) == 1, name


def test_spark_page_names_each_table() -> None:
    text = (DOCS / "spark.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in text] == []
