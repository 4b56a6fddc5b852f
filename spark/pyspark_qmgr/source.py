"""The class that Spark loads for the format "qmgr"."""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pyspark_qmgr.reader import TableReader
from pyspark_qmgr.schema import checked, schema_of
from pyspark_qmgr.stream import StreamReader
from qmgr_tables.option_parser import parse
from qmgr_tables.options import OptionInvalid
from qmgr_tables.stream import options as stream_options
from qmgrd.snapshot.finder import find


class DefaultSource(DataSource):
    """Snapshots of queue managers as tables. See `qmgr_tables.tables`."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `spark.read.format`."""
        return "qmgr"

    def schema(self) -> StructType:
        """Returns the columns.

        Also checks options and paths, so that `load()` reports their errors.
        """
        from qmgr_tables.tables.registry import TABLES

        if stream_options.is_streamed(self.options):
            return schema_of(TABLES[stream_options.parse(self.options).of.table])
        options = parse(self.options)
        if not options.skip_damaged:
            find(options.paths)
        return schema_of(TABLES[options.table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader for *schema*, which the user may have specified."""
        from qmgr_tables.tables.registry import TABLES

        if stream_options.is_streamed(self.options):
            raise OptionInvalid(
                "options such as url and cursor are for readStream only; "
                "spark.read reads snapshots, named by the option path"
            )
        options = parse(self.options)
        return TableReader(options, checked(TABLES[options.table], schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the stream reader for *schema*, which the user may have specified."""
        from qmgr_tables.tables.registry import TABLES

        options = stream_options.parse(self.options)
        if not options.urls and schema == schema_of(TABLES["messages"]):
            # Spark requests the columns before it knows that the query is a stream.
            stream_options.check_table("messages", {}, is_live=False)
        return StreamReader(options, checked(TABLES[options.of.table], schema))
