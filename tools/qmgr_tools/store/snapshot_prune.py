"""qmctl snapshot prune: deletes old snapshots, and leftovers of interrupted writers."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import humanize, option, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.dry_run import DryRun
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.store import snapshot_list

if TYPE_CHECKING:
    from qmgrd.snapshot.prune import Pruning

KEEP_MAX = 1_000_000
DELETED = (
    output.whole("directory", "SNAPSHOT"),
    output.text("queue_manager", "MANAGER"),
    output.Column("created_us", "CREATED", snapshot_list.to_the_second),
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
        help="Keep the N newest snapshots of each queue manager.",
    ),
]
OlderThan = Annotated[
    int | None,
    typer.Option(
        metavar="TIME",
        parser=option.time_ms,
        show_default=False,
        help='Delete only snapshots that are older than TIME, as in "30d".',
    ),
]


@command(local=True)
def prune(
    call: Call,
    places: snapshot_list.Places,
    keep: Keep = None,
    older_than: OlderThan = None,
    dry_run: DryRun = False,
) -> None:
    """Delete old snapshots of each queue manager, and leftovers of interrupted writers.

    With both --keep and --older-than, a snapshot is deleted only if both options allow it. With
    neither option, only leftovers are deleted. The newest sound snapshot of a queue manager and all
    unreadable snapshots are always kept. An incomplete upload to a URL counts as a leftover after
    one day.

    \b
    JSON: an object with
      removed      an array: directory, what (snapshot, leftover), and for a
                   snapshot the keys of "qmctl snapshot ls"
      stay         the number of kept snapshots
      unreadable   an array: the faults of unreadable snapshots
      dry_run      whether this was a dry run

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
        {**snapshot_list.facts(snapshot), "what": "snapshot"} for snapshot in planned.go
    ]
    rows += [{"directory": directory, "what": "leftover"} for directory in planned.leftovers]
    if not dry_run:
        _remove(rows)
    _show(call, rows, planned, dry_run)
    if not call.is_json and keep is None and older_than is None:
        output.flush()
        output.note(
            "only leftovers are deleted; to delete snapshots: --keep N or --older-than TIME"
        )


def _remove(rows: list[dict[str, Any]]) -> None:
    from qmgrd.snapshot.prune import remove
    from qmgrd.snapshot.remote import RemoteFailed

    for row in rows:
        try:
            remove(row["directory"])
        except (RemoteFailed, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise Failure(Exit.FAILED, f"cannot delete {row['directory']}", str(why)) from error


def _show(call: Call, rows: list[dict[str, Any]], planned: "Pruning", dry_run: bool) -> None:
    if call.is_json:
        facts = {"removed": rows, "stay": len(planned.stay), "unreadable": planned.unreadable}
        output.document(facts | {"dry_run": dry_run})
        return
    if rows:
        output.table(DELETED, rows)
    for why in planned.unreadable:
        output.note(f"kept an unreadable snapshot: {why}")
    size = humanize.size(sum(row.get("data_bytes", 0) for row in rows))
    stay = humanize.counted(len(planned.stay), "snapshot")
    verb = "would delete" if dry_run else "deleted"
    end = "; nothing changed" if dry_run else ""
    output.say(f"{verb} {len(rows)} ({size}); kept {stay}{end}")
