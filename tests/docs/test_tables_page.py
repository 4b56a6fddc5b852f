"""docs/tables.md says what the tables are."""

from pathlib import Path

import pytest

from docs.tables_page import page
from qmgr_tables.options import NAMES
from qmgr_tables.stream.options import ONLY
from qmgr_tables.tables.registry import TABLES

DOCS = Path(__file__).parents[2] / "docs"


def test_page_is_what_the_tables_are(pytestconfig: pytest.Config) -> None:
    """`--rewrite` writes it."""
    if pytestconfig.getoption("rewrite"):
        (DOCS / "tables.md").write_text(page())
    assert (DOCS / "tables.md").read_text() == page(), "pytest --rewrite tests/docs"


@pytest.mark.parametrize("name", TABLES)
def test_each_column_stands_once_in_its_section(name: str) -> None:
    section = page().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for column in TABLES[name].columns:
        assert section.count(f"\n| `{column.name}` | ") == 1


def test_what_it_takes_is_said() -> None:
    section = page().partition("\n## queues\n")[2].partition("\n## ")[0]
    assert "Supports the options `queues` and `queuesPattern`." in section
    assert "`since` and `until` apply to `at`." in page()


def test_pages_have_each_option_once() -> None:
    text = (DOCS / "spark.md").read_text() + (DOCS / "history.md").read_text()
    for name in {*NAMES, *ONLY} - {"paths"}:  # as which a list of paths comes
        rows = [
            line
            for line in text.splitlines()
            if line.startswith("| `") and f"`{name}`" in line.split(" | ")[0]
        ]
        assert len(rows) == 1, name


def test_page_of_spark_names_each_table() -> None:
    text = (DOCS / "spark.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in text] == []
