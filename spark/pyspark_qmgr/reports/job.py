"""The whole job: it reads snapshots, and writes a directory with Parquet files and a page.

qmctl and submit run this job.
"""

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from pyspark_qmgr.reports import cells, page
from pyspark_qmgr.reports.place import Place
from pyspark_qmgr.reports.report import Frames, Report
from pyspark_qmgr.reports.run import Outcome, run
from pyspark_qmgr.reports.tables import Tables, time_of
from qmgr_protocol.version import VERSION
from qmgrd.snapshot.finder import StoredSnapshot, find, verify

DOCUMENT = "report.json"


class ReportResults(NamedTuple):
    """The results of a job and their location."""

    outcomes: list[Outcome]
    page: str
    facts: page.Facts
    place: Place

    @property
    def failed(self) -> list[Outcome]:
        """Returns the reports that failed."""
        return [outcome for outcome in self.outcomes if outcome.error]

    def document(self) -> dict[str, Any]:
        """Returns the results as a dictionary for scripts."""
        return {
            "page": self.page,
            "reports": [_report(outcome, self.place) for outcome in self.outcomes],
            "snapshots": [dict(row) for row in self.facts.snapshots],
            "versions": dict(self.facts.versions),
        }


def _report(outcome: Outcome, place: Place) -> dict[str, Any]:
    return {
        "report": outcome.report.name,
        "state": "failed" if outcome.error else "done",
        "error": outcome.error or None,
        "took_ms": outcome.took_ms,
        "parts": [
            {
                "part": found.part.name,
                "parquet": place.shown(found.file),
                "rows": found.rows_total,
                "title": found.title,
            }
            for found in outcome.parts
        ],
    }


def found(paths: Iterable[str]) -> list[StoredSnapshot]:
    """Returns the snapshots that *paths* name, with verified checksums.

    Raises:
        SnapshotUnreadable: No snapshot was found, or a snapshot is damaged.
    """
    snapshots = find(paths)
    for snapshot in snapshots:
        verify(snapshot)
    return snapshots


def make(
    spark: SparkSession,
    reports: Sequence[Report],
    snapshots: Sequence[StoredSnapshot],
    to: str,
    options: Mapping[str, str],
    report_progress: Callable[[str], object] = lambda name: None,
    tables: Frames | None = None,
) -> ReportResults:
    """Runs *reports* on *snapshots* and writes the results into the directory *to*.

    Args:
        spark: A local or cluster session. Its executors must see the snapshots and *to*.
        reports: The reports to run.
        snapshots: The result of `found`.
        to: A path, or a URI that Spark can write to.
        options: The user's options, for display on the page.
        report_progress: The function that is called with the name of each report before it runs.
        tables: Tables to read instead of the tables of the snapshots.

    Raises:
        PlaceUnusable: *to* cannot be written to.
    """
    place = Place(spark, to)
    source = Tables(spark, snapshots) if tables is None else tables
    outcomes = run(spark, reports, source, place, report_progress)
    facts = page.Facts(
        cells.time(datetime.now(UTC)) + " UTC",
        tuple(sorted({snapshot.queue_manager for snapshot in snapshots})),
        tuple(map(_snapshot, snapshots)),
        options,
        versions(spark),
    )
    place.write_text(page.FILE, page.page(facts, outcomes))
    results = ReportResults(outcomes, place.shown(page.FILE), facts, place)
    place.write_text(DOCUMENT, json.dumps(results.document(), indent=2))
    return results


def _snapshot(snapshot: StoredSnapshot) -> dict[str, Any]:
    return {
        "queue_manager": snapshot.queue_manager,
        "snapshot_id": snapshot.id,
        "taken_at": time_of(snapshot.wall_us).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "turn": snapshot.turn,
        "directory": snapshot.directory,
    }


def versions(spark: SparkSession) -> dict[str, str]:
    """Returns the versions of all software that can affect the results."""
    jvm: Any = spark._jvm
    return {
        "qmgrd": VERSION,
        "spark": spark.version,
        "python": platform.python_version(),
        "java": str(jvm.java.lang.System.getProperty("java.version")),
    }
