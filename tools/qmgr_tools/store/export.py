"""qmctl export: writes the contents of stores to Parquet or Delta files, without Java."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from qmgr_tools.cli import completion, humanize, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage
from qmgr_tools.context import tls as tls_options

if TYPE_CHECKING:
    from qmgr_tables.export.export import Exported

INSTALL = "install it: pip install '.[tables]' in the source tree, or the package qmgr-spark"
COLUMNS = (
    output.text("table"),
    output.text("queue"),
    output.text("queue_manager"),
    output.count("rows"),
    output.size("bytes"),
    output.count("files"),
)


class FileFormat(StrEnum):
    """The values of --format."""

    PARQUET = "parquet"
    DELTA = "delta"


class Damaged(StrEnum):
    """The values of --on-damaged."""

    FAIL = "fail"
    SKIP = "skip"


def tables(incomplete: str) -> list[str]:
    """Returns the names of the tables, for the shell."""
    from qmgr_tables.tables.registry import TABLES  # The import takes 200 ms.

    return list(TABLES)


Paths = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="SNAPSHOT",
        show_default=False,
        autocompletion=completion.files,
        help="A snapshot, a directory of snapshots or a pattern. Repeatable.",
    ),
]
To = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        show_default=False,
        autocompletion=completion.files,
        help="The target, a directory or a URL for fsspec (Parquet) or deltalake.",
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        show_default=False,
        help="Export the history of a running queue manager instead of snapshots; like --connect.",
    ),
]
Cursor = Annotated[
    str,
    typer.Option(
        "--cursor",
        metavar="NAME",
        show_default=False,
        help="The export cursor of the history. Rows are kept until the cursor has read them.",
    ),
]
TableNames = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="TABLE",
        autocompletion=tables,
        show_default=False,
        help="The table to export; default: messages. Repeatable.",
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="Export each snapshot in full instead of only its new rows.")
]
Queues = Annotated[
    str,
    typer.Option(
        metavar="NAMES", show_default=False, help="Export only these queues, separated by commas."
    ),
]
Pattern = Annotated[
    str,
    typer.Option(
        metavar="REGEX",
        show_default=False,
        help="Export only queues whose full name matches this regular expression.",
    ),
]
States = Annotated[
    str,
    typer.Option(
        metavar="STATES",
        show_default=False,
        help="Export only messages in these states: ready, delayed, transmission, parked, ...",
    ),
]
Since = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        show_default=False,
        help="Export only rows since this time: 2026-05-01, 2026-05-01T12:30:00Z.",
    ),
]
Until = Annotated[
    str, typer.Option(metavar="TIME", show_default=False, help="Export only rows before this time.")
]
OnDamaged = Annotated[
    Damaged, typer.Option("--on-damaged", help="The action for damaged or missing snapshots.")
]
NoPayload = Annotated[bool, typer.Option("--no-payload", help="Omit bodies.")]
BodyMax = Annotated[
    str,
    typer.Option(
        "--max-body-bytes", metavar="BYTES", show_default=False, help="Omit longer bodies."
    ),
]
NoVerify = Annotated[
    bool, typer.Option("--no-verify", help="Do not check the checksums of snapshots.")
]


@command()
def export(
    call: Call,
    to: To,
    snapshots: Paths = None,
    url: Url = "",
    cursor: Cursor = "",
    table: TableNames = None,
    format: Annotated[FileFormat, typer.Option(help="The format of files.")] = FileFormat.PARQUET,
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
    """Export snapshots as tables. Each row is exported once. Java is not required.

    Later runs add only new rows. For the table messages these are messages that were put since, in
    the state of the first snapshot that contains them. For other tables these are the rows of new
    snapshots. With --full, each snapshot is exported in full, with changes and deletions. An
    interrupted run is continued by the next run. With --cursor, the history of a running queue
    manager is exported, and the cursor keeps rows until they are exported. The address and the
    login are those of every command, such as --context, or --url. See docs/tables.md for the
    tables, and docs/export.md for the files.

    \b
    JSON: an object with
      to, format, full
      tables    an array: table, path, snapshots (number of snapshots that were
                read), skipped (reasons why others were not), rows, bytes, files
                (numbers that were added), and queues, an array: queue,
                queue_manager, rows, bytes, files

    Examples:
      qmctl export --path /snapshots/monday --to /lake
      qmctl export --path '/snapshots/*' --to /lake --queues ORDERS --format delta
      qmctl export --url 127.0.0.1:7470 --to /lake --cursor lake
      qmctl export --context nyc --to /lake --cursor lake
      qmctl export --path /snapshots/monday --to /lake-full --full --no-payload
    """
    given = {"queues": queues, "queuesPattern": queues_pattern, "states": states}
    given |= {"maxBodyBytes": max_body_bytes, "since": since, "until": until}
    given = {name: text for name, text in given.items() if text}
    given |= {"includePayload": "false"} if no_payload else {}
    given |= {"verify": "false"} if no_verify else {}
    given |= {"onDamaged": on_damaged.value}
    source = ExportSource(tuple(snapshots or ()), url, cursor, to, format.value, full)
    _check(source, call, table)
    where = replace(call, connect=url) if url else call
    names = table or ["history" if source.is_live else "messages"]
    found = [_export(source, name, given, where) for name in names]
    if call.is_json:
        output.document(
            {"to": to, "format": format.value, "full": full, "tables": [_row(one) for one in found]}
        )
        return
    _show(found, to)


def _show(found: "list[Exported]", to: str) -> None:
    """Prints the added rows and files."""
    for why in dict.fromkeys(why for one in found for why in one.skipped):
        output.note(f"skipped: {why}")
    for one in found:
        if not one.has_files:
            output.note(f"{one.path} has no files yet: no rows of table {one.table} were found")
    rows = [{"table": one.table, **part._asdict()} for one in found for part in one.written]
    if rows:
        output.table(COLUMNS, rows)
    total = [sum(row[key] for row in rows) for key in ("rows", "files", "bytes")]
    output.say(
        f"added {humanize.counted(total[0], 'row')} in {humanize.counted(total[1], 'file')} "
        f"({humanize.size(total[2])}) to {to}"
        if rows
        else f"no new rows: {to} is up to date"
        if any(one.has_files for one in found)
        else f"nothing to export: no file was written to {to}"
    )


def _row(one: "Exported") -> dict[str, Any]:
    """Returns the object of a table for scripts."""
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


class ExportSource(NamedTuple):
    """The source and the target of an export."""

    snapshots: tuple[str, ...]
    url: str
    cursor: str
    to: str
    format: str
    full: bool

    @property
    def is_live(self) -> bool:
        """Whether the source is a running queue manager."""
        return not self.snapshots


def _check(source: ExportSource, call: Call, table: list[str] | None) -> None:
    """Raises a Failure with USAGE if options contradict each other."""
    what = f"cannot export to {source.to}"
    if source.is_live:
        is_named = bool(source.url or source.cursor or call.given)
        conflicts = not is_named or source.full or table not in (None, ["history"])
    else:
        conflicts = bool(source.url)
    if conflicts:
        raise usage(
            what,
            "exactly one of --path and --url is required, and --url exports only history",
            "use --path SNAPSHOT, or --url ADDRESS without --table and --full",
        )
    if source.cursor and not source.is_live:
        raise usage(
            what,
            "--cursor requires --url, because snapshots have no cursors",
            "omit --cursor, or omit --path and name a running queue manager: --url ADDRESS",
        )
    if source.url and call.given:
        raise usage(what, f"--url and {call.given} exclude each other", "use one of them")
    if source.is_live and not source.cursor:
        raise usage(
            what,
            "--url requires --cursor, because the cursor keeps rows until they are exported",
            "use a cursor that no other export uses: --cursor lake",
        )


def _export(source: ExportSource, table: str, given: dict[str, str], where: Call) -> "Exported":
    """Exports one table, and turns errors into a Failure."""
    what = f"cannot export {table} to {source.to}"
    try:
        from qmgr_tables.export import export as exports
    except ImportError as error:
        why = f"{error.name} is not installed"
        raise Failure(Exit.FAILED, what, why, INSTALL) from error
    import json

    from qmgr_tables.export.failure import ExportFailed, ExportRefused, ExportUnavailable
    from qmgr_tables.export.live import export_live
    from qmgr_tables.option_parser import parse
    from qmgr_tables.options import OptionInvalid
    from qmgr_tables.stream.access import Access
    from qmgrd.snapshot.finder import SnapshotUnreadable

    address = where.address() if source.is_live else ""
    paths = json.dumps(source.snapshots or [address])
    bar = partial(_bar, table)
    try:
        options = parse({"paths": paths, "table": table, **given})
        if source.is_live:
            tls = tls_options.arguments(where.target().tls).get("tls")
            return export_live(
                options,
                address,
                source.cursor,
                source.to,
                format=source.format,
                bar=bar,
                access=Access(where.credentials(what.removeprefix("cannot ")), tls),
            )
        return exports.export(options, source.to, format=source.format, full=source.full, bar=bar)
    except OptionInvalid as error:
        raise usage(what, *_parts(error)) from error
    except ExportRefused as error:
        raise Failure(Exit.REFUSED, what, *_parts(error)) from error
    except ExportUnavailable as error:
        raise Failure(Exit.UNAVAILABLE, what, *_parts(error)) from error
    except (ExportFailed, SnapshotUnreadable) as error:
        raise Failure(Exit.FAILED, what, *_parts(error)) from error


def _parts(error: Exception) -> tuple[str, str]:
    """Returns the reason and the remedy of an error."""
    why, _, remedy = str(error).rpartition("; ")
    return (why, remedy) if why else (remedy, "")


@contextmanager
def _bar(table: str, rows: int) -> Iterator[Callable[[int], object]]:
    """Shows the progress of a table, as a spinner if the number of rows is unknown."""
    with ExitStack() as shown:
        if rows:
            yield shown.enter_context(progress.counted(table, rows))
        else:
            shown.enter_context(progress.spinner(table))
            yield lambda more: None
