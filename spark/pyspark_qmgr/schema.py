"""The columns of a table as Spark's types, and the check of a user's schema."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from qmgr_tables.table import Table


class SchemaInvalid(ValueError):
    """A requested schema that the table does not have."""


def schema_of(table: "Table") -> StructType:
    """Returns the columns of *table*."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema)


def checked(table: "Table", schema: StructType) -> StructType:
    """Returns *schema* if it names columns of *table*, in any order, with their types.

    Raises:
        SchemaInvalid: which column is wrong, and how.
    """
    known = {field.name: field.dataType for field in schema_of(table).fields}
    seen: set[str] = set()
    for field in schema.fields:
        if field.name not in known:
            near = get_close_matches(field.name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise SchemaInvalid(f"schema: column {field.name!r} is not one of {table.name}; {hint}")
        type_ = known[field.name]
        if field.dataType != type_:
            raise SchemaInvalid(
                f"schema: column {field.name} is {field.dataType.simpleString()}, but "
                f"in {table.name} it is {type_.simpleString()}; read it as that, then cast"
            )
        if not field.nullable:
            raise SchemaInvalid(
                f"schema: column {field.name} is NOT NULL, but may be null; leave NOT NULL out"
            )
        if field.name in seen:
            raise SchemaInvalid(f"schema: column {field.name} is listed twice; name it once")
        seen.add(field.name)
    return schema
