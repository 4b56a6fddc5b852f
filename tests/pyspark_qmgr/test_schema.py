"""Tests of the columns, and of the errors in a user's schema."""

import pytest
from pyspark.sql.types import (
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from pyspark_qmgr.schema import SchemaInvalid, checked, schema_of
from qmgr_tables.row import Row
from qmgr_tables.tables.registry import TABLES

TABLE = TABLES["messages"]
MESSAGES = schema_of(TABLE)


def schema(*fields: StructField) -> StructType:
    return StructType(list(fields))


def refusal(*fields: StructField) -> str:
    with pytest.raises(SchemaInvalid) as refused:
        checked(TABLE, schema(*fields))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_rows_have_the_columns_of_the_schema() -> None:
    assert Row._fields == tuple(MESSAGES.names)


def test_every_column_may_be_null() -> None:
    assert all(field.nullable for field in MESSAGES.fields)


def test_own_schema_may_leave_out_and_reorder() -> None:
    some = schema(StructField("body_bytes", LongType()), StructField("queue", StringType()))
    assert checked(TABLE, some) is some
    assert checked(TABLE, MESSAGES) is MESSAGES


def test_unknown_column_is_named_with_the_one_that_was_meant() -> None:
    assert refusal(StructField("correlationid", StringType())) == (
        "schema: table messages has no column 'correlationid'; did you mean correlation_id?"
    )
    assert "the columns are queue, priority, " in refusal(StructField("zzz", StringType()))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (StructField("priority", StringType()), "priority is string, but in messages it is int"),
        (StructField("put_at", TimestampNTZType()), "is timestamp_ntz, but in messages it is time"),
        (StructField("headers", MapType(StringType(), StringType(), False)), "headers is map"),
    ],
)
def test_other_type_is_refused(field: StructField, text: str) -> None:
    assert text in refusal(field)


def test_not_null_is_refused() -> None:
    assert refusal(StructField("queue", StringType(), False)) == (
        "schema: column queue is NOT NULL, but may be null; omit NOT NULL"
    )


def test_column_that_is_named_twice_is_refused() -> None:
    queue = StructField("queue", StringType())
    assert refusal(queue, queue) == "schema: column queue is listed twice; list it once"
