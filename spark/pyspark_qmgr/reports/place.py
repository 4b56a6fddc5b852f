"""The destination of reports: a directory in any file system that Spark supports.

Files are written under a temporary name and then renamed. The rename replaces an older file.
"""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

_PARTIAL = ".partial-"


class PlaceUnusable(Exception):
    """A directory cannot be written to. The text states the directory and the reason."""


class Place:
    """A directory, which is created if it does not exist.

    Other files in the directory are not changed.
    """

    def __init__(self, spark: SparkSession, directory: str) -> None:
        """Opens *directory*, a path or a URI that Spark supports.

        Raises:
            PlaceUnusable: *directory* is a file, or cannot be created.
        """
        self._jvm: Any = spark._jvm
        assert self._jvm is not None  # The value is None only if Spark Connect is used.
        self._spark = spark
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(directory)
            self._files = path.getFileSystem(spark._jsc.hadoopConfiguration())
            # Otherwise, Hadoop writes a file .NAME.crc next to each file.
            self._files.setWriteChecksum(False)
            self._root = self._files.makeQualified(path)
            if not self._files.mkdirs(self._root):
                raise PlaceUnusable(f"{directory} cannot be created; choose another directory")
        except Py4JJavaError as error:
            raise PlaceUnusable(
                f"{directory}: {first_line(error)}; choose another directory"
            ) from error

    def uri(self, name: str) -> str:
        """Returns the URI of *name* for Spark."""
        return str(self._path(name).toString())

    def shown(self, name: str) -> str:
        """Returns the location of *name* for people and other programs."""
        return self.uri(name).removeprefix("file:")

    def write_frame(self, name: str, frame: DataFrame) -> None:
        """Writes *frame* as Parquet under *name*."""
        partial = _PARTIAL + name
        self._spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
        frame.write.mode("overwrite").parquet(self.uri(partial))
        self._put(partial, name)

    def read_frame(self, name: str) -> DataFrame:
        """Returns the frame that was written under *name*."""
        return self._spark.read.parquet(self.uri(name))

    def write_text(self, name: str, text: str) -> None:
        """Writes *text* to the file *name*."""
        partial = _PARTIAL + name
        stream = self._files.create(self._path(partial), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._put(partial, name)

    def discard(self, name: str) -> None:
        """Removes *name*, complete or incomplete."""
        for path in (self._path(name), self._path(_PARTIAL + name)):
            self._files.delete(path, True)

    def _put(self, partial: str, name: str) -> None:
        """Replaces *name* with *partial*.

        If the program crashes during this call, neither file may exist.
        """
        self._files.delete(self._path(name), True)
        if not self._files.rename(self._path(partial), self._path(name)):
            raise PlaceUnusable(
                f"{self.uri(name)} cannot be replaced; check whether the directory is in use"
            )

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error, without Java's class name."""
    if isinstance(error, Py4JJavaError):
        found = error.java_exception.getMessage() or error.java_exception.toString()
    else:
        found = str(error) or type(error).__name__
    return str(found).strip().partition("\n")[0]
