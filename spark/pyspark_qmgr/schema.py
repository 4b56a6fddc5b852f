"""The columns of a table as Spark types, and the check of a user's schema."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from qmgr_tables.table import Table


class SchemaInvalid(ValueError):
    """A requested schema differs from the table."""


def schema_of(table: "Table") -> StructType:
    """Returns the columns of *table* as a Spark schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema)


def checked(table: "Table", schema: StructType) -> StructType:
    """Returns *schema* if it names columns of *table*, in any order, with their types.

    Raises:
        SchemaInvalid: A column is invalid. The text states the column and the reason.
    """
    known = {field.name: field.dataType for field in schema_of(table).fields}
    seen: set[str] = set()
    for field in schema.fields:
        if field.name not in known:
            near = get_close_matches(field.name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(known)}"
            raise SchemaInvalid(f"schema: table {table.name} has no column {field.name!r}; {hint}")
        type_ = known[field.name]
        if field.dataType != type_:
            raise SchemaInvalid(
                f"schema: column {field.name} is {field.dataType.simpleString()}, but "
                f"in {table.name} it is {type_.simpleString()}; use that type, then cast"
            )
        if not field.nullable:
            raise SchemaInvalid(
                f"schema: column {field.name} is NOT NULL, but may be null; omit NOT NULL"
            )
        if field.name in seen:
            raise SchemaInvalid(f"schema: column {field.name} is listed twice; list it once")
        seen.add(field.name)
    return schema
