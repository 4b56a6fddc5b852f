"""qmctl report: creates reports about queues and links from snapshots, with Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage

if TYPE_CHECKING:
    from pyspark_qmgr.reports.job import ReportResults

LIST = "ls"
PACKAGES = ("pyspark", "pandas", "pyarrow", "matplotlib")  # packages of the extra "spark"
CORES_MAX = 1_024
_REPORTS = (output.text("report"), output.long_text("text", "DESCRIPTION"))
_DONE = (
    output.text("report"),
    output.text("state"),
    output.count("rows"),
    output.duration("took_ms", "TOOK"),
    output.long_text("summary", "SUMMARY"),
)
_WITHOUT = "to work without Java, use qmctl export"


@command(local=True)
def report(
    call: Call,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            show_default=False,
            help="Names of reports, or all. Without a name, or with ls: list the reports.",
        ),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SNAPSHOTS",
            show_default=False,
            autocompletion=completion.files,
            help="A snapshot, a directory of snapshots or a pattern. Repeatable.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            autocompletion=completion.files,
            help="The target, a directory or a URI that Spark can write to.",
        ),
    ] = None,
    cores: Annotated[
        int,
        typer.Option(
            metavar="N", help="The number of cores to use on this machine.", min=1, max=CORES_MAX
        ),
    ] = 2,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", show_default=False, help="Use a cluster instead: spark://HOST:PORT."
        ),
    ] = None,
) -> None:
    """Create reports from snapshots: depth, rates, latency, dead letters and more.

    Each report is written to DIR/NAME.parquet, with further parts in DIR/NAME-PART.parquet. The
    page DIR/report.html shows all reports. Existing files with these names are replaced. If a
    report fails, the others are still created, and the exit code is 1. The command requires Java
    and PySpark. For clusters see docs/spark.md.

    \b
    JSON: an object with
      page       the path of report.html
      reports    an array: report, state (done, failed), error (or null),
                 took_ms, parts: an array: part, parquet, rows, title
      snapshots  an array: queue_manager, snapshot_id, taken_at, turn, directory
      versions   versions of qmgrd, spark, python, java
    with ls: an array: report, text, tables (the sources), parts

    Examples:
      qmctl report ls
      qmctl report depth latency --path /snapshots/monday --to /tmp/reports
      qmctl report all --path '/snapshots/*' --to /tmp/reports --cores 8
    """
    with _refusals():
        for package in PACKAGES:
            if find_spec(package) is None:
                raise ModuleNotFoundError(name=package)
        from pyspark_qmgr.reports.registry import named
    if not names or names == [LIST]:
        _list(call)
        return
    with _refusals():
        asked = named(names)
    if not path or not to:
        missing = "--path" if not path else "--to"
        remedy = "example: qmctl report depth --path SNAPSHOTS --to DIR"
        raise usage("cannot create reports", f"{missing} is missing", remedy)
    options = {"path": ", ".join(path), "to": to, "reports": ", ".join(r.name for r in asked)}
    where = {"master": master} if master else {"cores": str(cores)}
    with _refusals():
        results = _make(asked, path, to, options | where, cores, master)
    _show(call, results)


def _list(call: Call) -> None:
    from pyspark_qmgr.reports.registry import REPORTS

    rows = [
        {
            "report": found.name,
            "text": found.text,
            "tables": list(found.tables),
            "parts": [part.name for part in found.parts],
        }
        for found in REPORTS.values()
    ]
    if call.is_json:
        output.document(rows)
    else:
        output.table(_REPORTS, rows)


def _make(
    asked: list[Any],
    path: list[str],
    to: str,
    options: dict[str, str],
    cores: int,
    master: str | None,
) -> "ReportResults":
    from pyspark_qmgr.reports import job
    from pyspark_qmgr.reports.watch import watched
    from pyspark_qmgr.session import cluster_session, local_session

    with progress.steps(len(asked)) as step:
        step("reading the snapshots", 0)
        snapshots = job.found(path)
        step("starting Spark", 0)
        app = "qmctl report"
        spark = cluster_session(app, master) if master else local_session(app, cores)
        done = -1
        name = ""

        def begin(next_name: str) -> None:
            nonlocal done, name
            done, name = done + 1, next_name
            step(name, done)

        def tasks(ended: int, total: int) -> None:
            step(f"{name}: {ended} of {total} tasks" if total else name, max(done, 0))

        try:
            with watched(spark, tasks):
                return job.make(spark, asked, snapshots, _absolute(to), options, begin)
        finally:
            spark.stop()


def _absolute(to: str) -> str:
    """Returns an absolute path: Spark would resolve a relative one in its JVM's directory."""
    return to if ":" in to.partition("/")[0] else str(Path(to).expanduser().absolute())


def _show(call: Call, results: "ReportResults") -> None:
    if call.is_json:
        output.document(results.document())
    else:
        output.table(_DONE, map(_row, results.document()["reports"]))
        output.say(f"wrote {results.page}")
    if results.failed:
        names = ", ".join(outcome.report.name for outcome in results.failed)
        raise Failure(
            Exit.FAILED,
            f"cannot create reports: {names}",
            results.failed[0].error,
            "the other reports were created",
        )


def _row(outcome: dict[str, Any]) -> dict[str, Any]:
    parts = outcome["parts"]
    summary = parts[0]["title"] if parts else outcome["error"]
    rows = sum(part["rows"] for part in parts) if parts else None
    return {**outcome, "rows": rows, "summary": summary or "no rows"}


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns errors of the block into a Failure."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = f"pip install 'qmgr-spark[spark]', and install Java 17, 21 or 25; {_WITHOUT}"
        why = f"the Python package {error.name} is not installed"
        raise Failure(Exit.FAILED, "cannot create reports", why, remedy) from error
    except Exception as error:
        failure = _failure(error)
        if failure is None:
            raise
        raise failure from error


def _failure(error: Exception) -> Failure | None:
    from pyspark_qmgr.java import JavaUnsuitable
    from pyspark_qmgr.reports.place import PlaceUnusable
    from pyspark_qmgr.reports.registry import ReportUnknown
    from qmgrd.snapshot.finder import SnapshotUnreadable

    what = "cannot create reports"
    if isinstance(error, JavaUnsuitable):
        return Failure(Exit.FAILED, what, str(error), _WITHOUT)
    if isinstance(error, ReportUnknown):
        return usage(what, str(error), "see: qmctl report ls")
    if isinstance(error, SnapshotUnreadable | PlaceUnusable):
        return Failure(Exit.FAILED, what, str(error))
    return None
