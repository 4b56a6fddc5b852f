"""Tests of the rules that every table follows."""

import pytest

from pyspark_qmgr.schema import schema_of
from qmgr_tables.tables.registry import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_columns_are_what_spark_makes_of_them_and_back(name: str) -> None:
    """Spark compares the schema of each batch exactly with its own schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    table = TABLES[name]
    assert to_arrow_schema(schema_of(table), timezone="UTC").equals(table.schema)


@pytest.mark.parametrize("name", TABLES)
def test_each_column_says_what_it_is_and_may_be_null(name: str) -> None:
    columns = TABLES[name].columns
    assert all(column.text for column in columns)
    assert all(field.nullable for field in TABLES[name].schema)
    assert len({column.name for column in columns}) == len(columns)
