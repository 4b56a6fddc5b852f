"""What Spark finds: format "qmgr"."""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from pyspark_qmgr.manifest import find
from pyspark_qmgr.options import parse
from pyspark_qmgr.reader import MessageReader
from pyspark_qmgr.schema import MESSAGES, checked


class DefaultSource(DataSource):
    """Snapshots of queue managers as a table of messages: see schema.py and options.py."""

    @classmethod
    def name(cls) -> str:
        """Return what follows `spark.read.format`."""
        return "qmgr"

    def schema(self) -> StructType:
        """Return the columns. Looks at options and paths too, so that `load()` tells of them."""
        find(parse(self.options).paths)
        return MESSAGES

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the columns of *schema*, which may be the user's."""
        return MessageReader(parse(self.options), checked(schema))
