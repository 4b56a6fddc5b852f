"""What Spark finds: format "qmgr"."""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from pyspark_qmgr.reader import TableReader
from pyspark_qmgr.schema import checked, schema_of
from qmgr_tables.options import parse
from qmgrd.ops.snapshots import find


class DefaultSource(DataSource):
    """Snapshots of queue managers as tables: see qmgr_tables.tables and qmgr_tables.options."""

    @classmethod
    def name(cls) -> str:
        """Return what follows `spark.read.format`."""
        return "qmgr"

    def schema(self) -> StructType:
        """Return the columns. Looks at options and paths too, so that `load()` tells of them."""
        from qmgr_tables.tables import TABLES

        options = parse(self.options)
        if not options.skip_damaged:
            find(options.paths)
        return schema_of(TABLES[options.table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the columns of *schema*, which may be the user's."""
        from qmgr_tables.tables import TABLES

        options = parse(self.options)
        return TableReader(options, checked(TABLES[options.table], schema))
