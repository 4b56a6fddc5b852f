"""qmctl export: what stores hold, as files of Parquet or Delta, on a machine without Java."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools import completion, humane, output, progress
from qmgr_tools.command import Call, command
from qmgr_tools.failure import Exit, Failure, usage

if TYPE_CHECKING:
    from qmgr_tables.export import Exported

INSTALL = "install it: pip install 'qmgrd[tables]'"
COLUMNS = (
    output.text("table"),
    output.text("queue"),
    output.text("queue_manager"),
    output.count("rows"),
    output.size("bytes"),
    output.count("files"),
)


class FileFormat(StrEnum):
    """What --format may say."""

    PARQUET = "parquet"
    DELTA = "delta"


def tables(incomplete: str) -> list[str]:
    """Return the names of the tables, for the shell."""
    from qmgr_tables.tables import TABLES  # takes 200 ms

    return list(TABLES)


Paths = Annotated[
    list[str],
    typer.Option(
        "--path", metavar="SNAPSHOT", show_default=False, autocompletion=completion.files,
        help="A snapshot, a directory of them or a pattern; may be repeated.",
    ),
]  # fmt: skip
To = Annotated[
    str,
    typer.Option(
        metavar="DIR", show_default=False, autocompletion=completion.files,
        help="A directory, or a URL that fsspec (Parquet) or deltalake reaches.",
    ),
]  # fmt: skip
TableNames = Annotated[
    list[str],
    typer.Option(
        "--table", metavar="TABLE", autocompletion=tables,
        help="Which table; may be repeated.",
    ),
]  # fmt: skip
Full = Annotated[
    bool, typer.Option("--full", help="Each snapshot whole, not what is new in it alone.")
]
Queues = Annotated[
    str, typer.Option(metavar="NAMES", show_default=False, help="These, with commas between them.")
]
Pattern = Annotated[
    str,
    typer.Option(
        metavar="REGEX", show_default=False,
        help="Queues whose whole name matches a regular expression.",
    ),
]  # fmt: skip
States = Annotated[
    str,
    typer.Option(
        metavar="STATES", show_default=False,
        help="Messages that are ready, delayed, transmission, parked, ...",
    ),
]  # fmt: skip
NoPayload = Annotated[bool, typer.Option("--no-payload", help="Leave bodies out.")]
BodyMax = Annotated[
    str,
    typer.Option(
        "--max-body-bytes", metavar="BYTES", show_default=False, help="Leave longer bodies out."
    ),
]
NoVerify = Annotated[
    bool, typer.Option("--no-verify", help="Do not compare snapshots with their checksums.")
]


@command(local=True)
def export(
    call: Call,
    snapshots: Paths,
    to: To,
    table: TableNames = ["messages"],  # noqa: B006 # Typer shows it, and nothing changes it.
    format: Annotated[FileFormat, typer.Option(help="What to write.")] = FileFormat.PARQUET,
    full: Full = False,
    queues: Queues = "",
    queues_pattern: Pattern = "",
    states: States = "",
    no_payload: NoPayload = False,
    max_body_bytes: BodyMax = "",
    no_verify: NoVerify = False,
) -> None:
    """Write what snapshots hold as tables to files, once each row; Java is not needed.

    Run it again and it adds what is new: of messages, those that were put since, each as the first
    snapshot shows it that has it; of other tables, each further snapshot. --full writes each
    snapshot whole, as messages change and go. However it is stopped, the next run goes on from what
    is whole. What the tables have says docs/spark.md, how they are kept docs/export.md.

    \b
    JSON: an object with
      to, format, full
      tables    an array: table, path, snapshots (how many were looked at), rows,
                bytes, files (that were added), and queues, an array: queue,
                queue_manager, rows, bytes, files

    Examples:
      qmctl export --path /snapshots/monday --to /lake
      qmctl export --path '/snapshots/*' --to /lake --queues ORDERS --format delta
      qmctl export --path /snapshots/monday --to /lake-full --full --no-payload
    """
    given = {"queues": queues, "queuesPattern": queues_pattern, "states": states}
    given |= {"maxBodyBytes": max_body_bytes}
    given = {name: text for name, text in given.items() if text}
    given |= {"includePayload": "false"} if no_payload else {}
    given |= {"verify": "false"} if no_verify else {}
    found = [_export(snapshots, to, name, given, format.value, full=full) for name in table]
    if call.is_json:
        output.document({
            "to": to, "format": format.value, "full": full, "tables": [_row(one) for one in found],
        })  # fmt: skip
        return
    rows = [{"table": one.table, **part._asdict()} for one in found for part in one.written]
    if rows:
        output.table(COLUMNS, rows)
    total = [sum(row[key] for row in rows) for key in ("rows", "files", "bytes")]
    output.say(
        f"added {humane.counted(total[0], 'row')} in {humane.counted(total[1], 'file')} "
        f"({humane.size(total[2])}) to {to}"
        if rows
        else f"nothing is new: {to} has all of it"
    )


def _row(one: "Exported") -> dict[str, Any]:
    """Return what scripts are told of a table."""
    queues = [part._asdict() for part in one.written]
    totals = {key: sum(part[key] for part in queues) for key in ("rows", "bytes", "files")}
    return {
        "table": one.table, "path": one.path, "snapshots": one.snapshots, **totals,
        "queues": queues,
    }  # fmt: skip


def _export(
    snapshots: list[str], to: str, table: str, given: dict[str, str], format: str, *, full: bool
) -> "Exported":
    """Export one table; turn what goes wrong into a Failure."""
    what = f"cannot export {table} to {to}"
    try:
        from qmgr_tables import export as exports
    except ImportError as error:
        why = f"{error.name} is not installed"
        raise Failure(Exit.FAILED, what, why, INSTALL) from error
    import json

    from qmgr_tables.export_failure import ExportFailed, ExportRefused
    from qmgr_tables.options import OptionInvalid, parse
    from qmgrd.ops.snapshots import SnapshotUnreadable

    try:
        options = parse({"paths": json.dumps(snapshots), "table": table, **given})
        return exports.export(options, to, format=format, full=full, bar=partial(_bar, table))
    except OptionInvalid as error:
        raise usage(what, *_parted(error)) from error
    except ExportRefused as error:
        raise Failure(Exit.REFUSED, what, *_parted(error)) from error
    except (ExportFailed, SnapshotUnreadable) as error:
        raise Failure(Exit.FAILED, what, *_parted(error)) from error


def _parted(error: Exception) -> tuple[str, str]:
    """Return what is wrong, and what to do about it."""
    why, _, remedy = str(error).rpartition("; ")
    return (why, remedy) if why else (remedy, "")


@contextmanager
def _bar(table: str, rows: int) -> Iterator[Callable[[int], object]]:
    """Show how far a table is; a wheel where nobody knows how long it is."""
    with ExitStack() as shown:
        if rows:
            yield shown.enter_context(progress.counted(table, rows))
        else:
            shown.enter_context(progress.spinner(table))
            yield lambda more: None
