"""Reports as a program for spark-submit.

    spark-submit --master spark://HOST:7077 $(python -m pyspark_qmgr.submit --where) \
        depth latency --path /shared/snapshots --to /shared/reports

The program is `qmctl report` without a progress bar, in the session of spark-submit. Set memory,
cores and --py-files there. The program prints the content of DIR/report.json. The exit code is 1 if
a report failed.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

_OWN = str(Path(__file__).resolve().parent)
# Python puts the directory of a program first in the path. If it stayed there, `reports`
# could be imported as a top-level module.
sys.path[:] = [path for path in sys.path if not path or str(Path(path).resolve()) != _OWN]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the reports that *arguments* name. Returns the exit code."""
    given = _parser().parse_args(arguments)
    if given.where:
        print(Path(__file__).resolve())
        return 0
    from pyspark.sql import SparkSession

    from pyspark_qmgr.reports import job
    from pyspark_qmgr.reports.place import PlaceUnusable
    from pyspark_qmgr.reports.registry import ALL, ReportUnknown, named
    from qmgrd.snapshot.finder import SnapshotUnreadable

    try:
        reports = named(given.reports or [ALL])
        if not given.path or not given.to:
            raise ReportUnknown(
                "--path (the snapshots) and --to (the destination of reports) are required"
            )
        snapshots = job.found(given.path)
        spark = SparkSession.builder.appName("qmgr reports").getOrCreate()
        options = {
            "path": ", ".join(given.path),
            "to": given.to,
            "master": spark.sparkContext.master,
        }
        made = job.make(spark, reports, snapshots, given.to, options)
    except (ReportUnknown, SnapshotUnreadable, PlaceUnusable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ReportUnknown) else 1
    print(json.dumps(made.document(), indent=2))
    spark.stop()
    return 1 if made.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pyspark_qmgr.submit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("reports", nargs="*", metavar="NAME", help="names of reports; default: all")
    add(
        "--path",
        action="append",
        metavar="SNAPSHOTS",
        help="a snapshot, a directory of snapshots or a pattern; may be repeated",
    )
    add("--to", metavar="DIR", help="the destination of reports: a path or a URI")
    add("--where", action="store_true", help="print the path of this program")
    return parser


if __name__ == "__main__":
    sys.exit(main())
