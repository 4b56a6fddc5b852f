"""A process with a Spark session that reads tables and measures the cost.

    python -m qmgr_bench.own.table_spark CORES JAR

The process receives each request as a line of JSON and answers with a line of JSON. The parent
measures the processor time of Java and of its Python workers.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qmgr_bench.load import LoadFailed
from qmgr_bench.server import used_s

STOP_MAX_S = 60.0
ERROR_MAX = 1_000
Table = tuple[str, dict[str, str]]  # a format that Spark reads, and the options of the table
SUMMED = ("string", "binary")  # column types whose lengths are summed
NOT_SUMMED = ("headers", "persistent")


@dataclass(frozen=True, slots=True)
class Reading:
    """The cost of reading a table once."""

    rows: int
    wall_s: float
    cpu_s: float  # processor time of all processes involved
    worker_cpu_s: float = 0.0  # processor time of Spark's Python workers

    @property
    def wall_us(self) -> float:
        """Returns the elapsed time in us per row."""
        return self.wall_s / self.rows * 1e6

    @property
    def cpu_us(self) -> float:
        """Returns the processor time in us per row."""
        return self.cpu_s / self.rows * 1e6


class Session:
    """A Spark session in a separate process.

    Invariant: the process runs until the session is closed.
    """

    def __init__(self, directory: Path, cores: int, jar: str = "") -> None:
        """Starts the process, which logs to a file in *directory*.

        Args:
            jar: The path of a JDBC driver, if needed.
        """
        self._log = directory / f"spark-{cores}.log"
        words = [sys.executable, "-m", "qmgr_bench.own.table_spark", str(cores), jar]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                text=True,
            )

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]

    def read(self, rows: int, table: Table) -> Reading:
        """Reads each column of each of the *rows* rows of *table*, and discards it.

        Raises:
            LoadFailed: The read failed.
        """
        java_s, worker_s = self._cpu_s()
        wall_s: float = self.ask("read", table)
        java_after_s, worker_after_s = self._cpu_s()
        # The time of a worker that has ended is no longer included.
        workers_s = max(worker_after_s - worker_s, 0.0)
        return Reading(rows, wall_s, java_after_s - java_s + workers_s, workers_s)

    def ask(self, what: str, table: Table, to: Table | None = None) -> Any:
        """Runs *what*, a key of DOING, and returns its result.

        Raises:
            LoadFailed: The session ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        with suppress(BrokenPipeError):
            print(json.dumps([what, table, to]), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        if not line:
            last = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise LoadFailed(f"the Spark session ended: {last}")
        return json.loads(line)

    def _cpu_s(self) -> tuple[float, float]:
        """Returns the processor times of Java and of its Python workers, in seconds."""
        used = used_s(self._process.pid)
        java_s = used.pop("java", 0.0)
        return java_s, sum(used.values())


def read(frame: Any, to: Any) -> float:
    """Returns the time in seconds to read all of *frame*."""
    del to
    start_s = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - start_s


def sums(frame: Any, to: Any) -> list[int]:
    """Returns a number per column over all rows, to compare tables. Omits headers."""
    from pyspark.sql import functions as F

    del to
    found = [
        F.sum(
            F.length(name) if type_ in SUMMED else F.col(name).cast("double").cast("long") % 1_009
        )
        for name, type_ in sorted(frame.dtypes)
        if name not in NOT_SUMMED
    ]
    return [int(value or 0) for value in frame.agg(*found).first()]


def copy(frame: Any, to: tuple[str, dict[str, str]]) -> None:
    """Writes *frame* to the table *to*, without columns that databases reject."""
    format_, options = to
    frame.drop("headers").write.format(format_).options(**options).mode("overwrite").save()


DOING = {"read": read, "sums": sums, "copy": copy}


def main(cores: str, jar: str = "") -> None:
    """Handles requests until the input ends."""
    from pyspark_qmgr.session import local_session
    from qmgr_bench.own.table_ready import Ready

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark's output must not be read as an answer.
    settings = {"spark.driver.extraClassPath": jar} if jar else {}
    session = local_session("bench", int(cores), settings=settings)
    session.dataSource.register(Ready)
    for line in sys.stdin:
        what, (format_, options), to = json.loads(line)
        try:
            frame = session.read.format(format_).options(**options).load()
            answer = DOING[what](frame, to)
        except Exception as error:  # Py4J raises many types of exceptions, each with pages of Java.
            sys.exit(" ".join(str(error).split())[:ERROR_MAX])
        print(json.dumps(answer), file=answers, flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
