"""qmctl snapshot prune: removes old snapshots, and what writers that died left."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli import option, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.dry_run import DryRun
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.store import snapshot_list as snapshot_look

if TYPE_CHECKING:
    from qmgrd.snapshot.prune import Pruning

KEEP_MAX = 1_000_000
GONE = (
    output.whole("directory", "SNAPSHOT"),
    output.text("queue_manager", "MANAGER"),
    output.Column("created_us", "CREATED", snapshot_look.to_the_second),
    output.size("data_bytes", "SIZE"),
    output.text("what"),
)
Keep = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=KEEP_MAX,
        show_default=False,
        help="The N newest of each queue manager stay.",
    ),
]
OlderThan = Annotated[
    int | None,
    typer.Option(
        metavar="TIME",
        parser=option.time_ms,
        show_default=False,
        help='What is younger stays, as in "30d".',
    ),
]


@command(local=True)
def prune(
    call: Call,
    places: snapshot_look.Places,
    keep: Keep = None,
    older_than: OlderThan = None,
    dry_run: DryRun = False,
) -> None:
    """Remove old snapshots, of each queue manager by itself, and what dead writers left.

    With both --keep and --older-than, what one of them keeps stays; with neither, only what dead
    writers left goes. The newest sound snapshot of a queue manager always stays, and so does what
    cannot be read. What is uploaded to a URL counts as left after a day.

    \b
    JSON: an object with
      removed      an array: directory, what (snapshot, leftover), and of a
                   snapshot what qmctl snapshot ls tells
      stay         how many snapshots stay
      unreadable   an array: what is wrong with each
      dry_run      whether nothing was removed

    Examples:
      qmctl snapshot prune /backup --keep 7 --dry-run
      qmctl snapshot prune /backup --keep 7 --older-than 30d
    """
    from qmgrd.snapshot.finder import SnapshotUnreadable
    from qmgrd.snapshot.prune import plan

    older_us = None if older_than is None else time.time_ns() // 1000 - older_than * 1000
    try:
        planned = plan(places, keep, older_us)
    except SnapshotUnreadable as error:
        raise Failure(Exit.NOT_FOUND, "cannot prune", str(error)) from error
    rows: list[dict[str, Any]] = [
        {**snapshot_look.facts(snapshot), "what": "snapshot"} for snapshot in planned.go
    ]
    rows += [{"directory": directory, "what": "leftover"} for directory in planned.leftovers]
    if not dry_run:
        _remove(rows)
    _tell(call, rows, planned, dry_run)
    if not call.is_json and keep is None and older_than is None:
        output.flush()
        output.note("no snapshot was looked at for its age: say --keep N, or --older-than TIME")


def _remove(rows: list[dict[str, Any]]) -> None:
    from qmgrd.snapshot.prune import remove
    from qmgrd.snapshot.remote import RemoteFailed

    for row in rows:
        try:
            remove(row["directory"])
        except (RemoteFailed, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise Failure(Exit.FAILED, f"cannot remove {row['directory']}", str(why)) from error


def _tell(call: Call, rows: list[dict[str, Any]], planned: "Pruning", dry_run: bool) -> None:
    if call.is_json:
        facts = {"removed": rows, "stay": len(planned.stay), "unreadable": planned.unreadable}
        output.document(facts | {"dry_run": dry_run})
        return
    if rows:
        output.table(GONE, rows)
    for why in planned.unreadable:
        output.note(f"left alone: {why}")
    size = humane.size(sum(row.get("data_bytes", 0) for row in rows))
    stay = humane.counted(len(planned.stay), "snapshot")
    said = "would remove" if dry_run else "removed"
    end = "; nothing is changed" if dry_run else ""
    output.say(f"{said} {len(rows)}, {size}; {stay} stay{'s' * (len(planned.stay) == 1)}{end}")
