"""The tables, by name."""

from qmgr_tables.tables import TABLES


def test_each_table_is_known_by_its_name() -> None:
    assert [table.name for table in TABLES.values()] == list(TABLES)
