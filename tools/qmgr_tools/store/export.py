"""qmctl export: what stores hold, as files of Parquet or Delta, on a machine without Java."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from qmgr_tools.cli import completion, output, progress
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage

if TYPE_CHECKING:
    from qmgr_tables.export.export import Exported

INSTALL = "install it: pip install qmgr-spark"
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


class Damaged(StrEnum):
    """What --on-damaged may say."""

    FAIL = "fail"
    SKIP = "skip"


def tables(incomplete: str) -> list[str]:
    """Return the names of the tables, for the shell."""
    from qmgr_tables.tables.registry import TABLES  # takes 200 ms

    return list(TABLES)


Paths = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="SNAPSHOT",
        show_default=False,
        autocompletion=completion.files,
        help="A snapshot, a directory of them or a pattern; may be repeated.",
    ),
]
To = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        show_default=False,
        autocompletion=completion.files,
        help="A directory, or a URL that fsspec (Parquet) or deltalake reaches.",
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        show_default=False,
        help="In place of --path: history of a queue manager that runs.",
    ),
]
Cursor = Annotated[
    str,
    typer.Option(
        "--cursor",
        metavar="NAME",
        show_default=False,
        help="With --url: the export cursor that keeps what is not exported.",
    ),
]
TableNames = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="TABLE",
        autocompletion=tables,
        show_default=False,
        help="Which table; may be repeated. Without it messages.",
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="Each snapshot whole, not what is new in it alone.")
]
Queues = Annotated[
    str, typer.Option(metavar="NAMES", show_default=False, help="These, with commas between them.")
]
Pattern = Annotated[
    str,
    typer.Option(
        metavar="REGEX",
        show_default=False,
        help="Queues whose whole name matches a regular expression.",
    ),
]
States = Annotated[
    str,
    typer.Option(
        metavar="STATES",
        show_default=False,
        help="Messages that are ready, delayed, transmission, parked, ...",
    ),
]
Since = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        show_default=False,
        help="Rows from then on: 2026-05-01, 2026-05-01T12:30:00Z.",
    ),
]
Until = Annotated[str, typer.Option(metavar="TIME", show_default=False, help="Rows before then.")]
OnDamaged = Annotated[
    Damaged,
    typer.Option("--on-damaged", help="What becomes of snapshots that are damaged or missing."),
]
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
    to: To,
    snapshots: Paths = None,
    url: Url = "",
    cursor: Cursor = "",
    table: TableNames = None,
    format: Annotated[FileFormat, typer.Option(help="What to write.")] = FileFormat.PARQUET,
    full: Full = False,
    queues: Queues = "",
    queues_pattern: Pattern = "",
    states: States = "",
    since: Since = "",
    until: Until = "",
    no_payload: NoPayload = False,
    max_body_bytes: BodyMax = "",
    no_verify: NoVerify = False,
    on_damaged: OnDamaged = Damaged.FAIL,
) -> None:
    """Write what snapshots hold as tables to files, once each row; Java is not needed.

    Run it again and it adds what is new: of messages, those that were put since, each as the first
    snapshot shows it that has it; of other tables, each further snapshot. --full writes each
    snapshot whole, as messages change and go. However it is stopped, the next run goes on from what
    is whole. With --url history comes from a queue manager that runs, which keeps for the cursor
    what is not exported yet. What the tables have says docs/tables.md, how they are kept
    docs/export.md.

    \b
    JSON: an object with
      to, format, full
      tables    an array: table, path, snapshots (how many were looked at),
                skipped (why some were not), rows, bytes, files (that were added),
                and queues, an array: queue, queue_manager, rows, bytes, files

    Examples:
      qmctl export --path /snapshots/monday --to /lake
      qmctl export --path '/snapshots/*' --to /lake --queues ORDERS --format delta
      qmctl export --url 127.0.0.1:7470 --to /lake --cursor lake
      qmctl export --path /snapshots/monday --to /lake-full --full --no-payload
    """
    given = {"queues": queues, "queuesPattern": queues_pattern, "states": states}
    given |= {"maxBodyBytes": max_body_bytes, "since": since, "until": until}
    given = {name: text for name, text in given.items() if text}
    given |= {"includePayload": "false"} if no_payload else {}
    given |= {"verify": "false"} if no_verify else {}
    given |= {"onDamaged": on_damaged.value}
    where = Where(tuple(snapshots or ()), url, cursor, to, format.value, full)
    _check(where, table)
    names = table or ["history" if url else "messages"]
    found = [_export(where, name, given) for name in names]
    if call.is_json:
        output.document(
            {"to": to, "format": format.value, "full": full, "tables": [_row(one) for one in found]}
        )
        return
    _tell(found, to)


def _tell(found: "list[Exported]", to: str) -> None:
    """Print what was added, and where there is nothing to read."""
    for why in dict.fromkeys(why for one in found for why in one.skipped):
        output.note(f"left out: {why}")
    for one in found:
        if not one.has_files:
            output.note(f"there is nothing to read at {one.path} yet: no {one.table} were found")
    rows = [{"table": one.table, **part._asdict()} for one in found for part in one.written]
    if rows:
        output.table(COLUMNS, rows)
    total = [sum(row[key] for row in rows) for key in ("rows", "files", "bytes")]
    output.say(
        f"added {humane.counted(total[0], 'row')} in {humane.counted(total[1], 'file')} "
        f"({humane.size(total[2])}) to {to}"
        if rows
        else f"nothing is new: {to} has all of it"
        if any(one.has_files for one in found)
        else f"nothing to export: no file was made in {to}"
    )


def _row(one: "Exported") -> dict[str, Any]:
    """Return what scripts are told of a table."""
    queues = [part._asdict() for part in one.written]
    totals = {key: sum(part[key] for part in queues) for key in ("rows", "bytes", "files")}
    return {
        "table": one.table,
        "path": one.path,
        "snapshots": one.snapshots,
        "skipped": one.skipped,
        **totals,
        "queues": queues,
    }


class Where(NamedTuple):
    """From where an export comes, and where it goes."""

    snapshots: tuple[str, ...]
    url: str
    cursor: str
    to: str
    format: str
    full: bool


def _check(where: Where, table: list[str] | None) -> None:
    """Refuse what does not go together."""
    what = f"cannot export to {where.to}"
    too_much = where.url and (where.full or table not in (None, ["history"]))
    if bool(where.snapshots) == bool(where.url) or too_much:
        raise usage(
            what,
            "--path is needed, or --url, which has history alone",
            "name a snapshot, or the address of a queue manager, with no --table and no --full",
        )
    if where.cursor and not where.url:
        raise usage(
            what,
            "--cursor goes with --url: snapshots keep none",
            "leave it out, or name a queue manager that runs: --url ADDRESS",
        )
    if where.url and not where.cursor:
        raise usage(
            what,
            "--cursor is missing: it keeps what is not exported yet",
            "name one that no other export uses: --cursor lake",
        )


def _export(where: Where, table: str, given: dict[str, str]) -> "Exported":
    """Export one table; turn what goes wrong into a Failure."""
    what = f"cannot export {table} to {where.to}"
    try:
        from qmgr_tables.export import export as exports
    except ImportError as error:
        why = f"{error.name} is not installed"
        raise Failure(Exit.FAILED, what, why, INSTALL) from error
    import json

    from qmgr_tables.export.failure import ExportFailed, ExportRefused, ExportUnavailable
    from qmgr_tables.export.live import export_live
    from qmgr_tables.options import OptionInvalid, parse
    from qmgrd.snapshot.finder import SnapshotUnreadable

    paths = json.dumps(where.snapshots or [where.url])
    bar = partial(_bar, table)
    try:
        options = parse({"paths": paths, "table": table, **given})
        if where.url:
            return export_live(
                options, where.url, where.cursor, where.to, format=where.format, bar=bar
            )
        return exports.export(options, where.to, format=where.format, full=where.full, bar=bar)
    except OptionInvalid as error:
        raise usage(what, *_parted(error)) from error
    except ExportRefused as error:
        raise Failure(Exit.REFUSED, what, *_parted(error)) from error
    except ExportUnavailable as error:
        raise Failure(Exit.UNAVAILABLE, what, *_parted(error)) from error
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
