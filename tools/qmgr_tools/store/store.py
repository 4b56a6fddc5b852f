"""qmctl store: looks at a store while no queue manager works on it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from qmgr_tools.cli import completion, output, progress
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure

Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        show_default=False,
        autocompletion=completion.files,
        help="A data directory whose daemon is stopped, or a snapshot.",
    ),
]
PROGRESS_ROWS_MIN = 100_000
PROGRESS_BYTES_MIN = 256 << 20

FINDINGS = (
    output.text("fault"),
    output.long_text("key"),
    output.long_text("what"),
    output.long_text("means"),
)
FACTS = (
    output.text("queue_manager", "queue manager"),
    output.text("store_id", "store"),
    output.count("boot"),
    output.count("turn"),
    output.Column("last_turn_us", "last turn", humane.rfc3339),
    output.text("data", "file"),
    output.size("file_bytes", "file size"),
    output.size("map_bytes", "store at most"),
    output.size("used_bytes", "used"),
    output.size("free_bytes", "free in the file"),
    output.size("overhead_bytes", "overhead"),
    output.size("page_bytes", "page"),
    output.count("tree_depth", "tree depth"),
    output.count("leaf_pages"),
    output.count("branch_pages"),
    output.count("overflow_pages"),
    output.count("transaction"),
    output.count("readers"),
    output.count("oldest_reader"),
    output.count("rows"),
    output.count("messages"),
    output.count("producers"),
)
KINDS = (output.text("kind", "ROWS"), output.count("rows", "COUNT"), output.size("bytes"))


def _by_priority(counts: dict[int, int]) -> str:
    return " ".join(f"{priority}:{counts[priority]}" for priority in sorted(counts, reverse=True))


QUEUES = (
    output.text("queue"),
    output.text("kind"),
    output.count("depth"),
    output.count("delayed"),
    output.count("parked"),
    output.size("bytes"),
    output.Column("oldest_us", "OLDEST PUT", humane.rfc3339),
    output.count("set_aside"),
    output.Column("priorities", "BY PRIORITY", _by_priority, is_long=True),
)


@command(local=True)
def verify(
    call: Call,
    directory: Directory,
    limit: Annotated[
        int, typer.Option(metavar="N", help="The most findings that are listed.", min=0)
    ] = 100,
) -> None:
    """Look for damage: in LMDB's pages, checksums, counters, indexes, long messages.

    Nothing is changed, and a store that a queue manager works on is refused: stop it, or take a
    snapshot and verify that. A million messages take some ten seconds. Exit code 1 if anything is
    found.

    \b
    JSON: an object with
      sound, data, queue_manager     sound: nothing was found
      rows, messages                 how many were looked at
      set_aside                      messages that were damaged before, and are
                                     kept apart
      counts                         an object: fault to how often it was found
      findings                       an array: fault, key (in hex), what, means

    Examples:
      qmctl store verify /var/lib/qmgrd
      qmctl store verify /backup/monday -o json
    """
    with _looking_at(directory):
        from qmgrd.verify import verify as verification

        with ExitStack() as shown:
            verdict = verification.verify(directory, lambda *what: _progress(shown, *what))
    findings = [
        {"fault": one.fault, "key": one.key.hex(), "what": one.what, "means": one.means}
        for one in verdict.findings.kept[:limit]
    ]
    counts = dict(sorted(verdict.findings.counts.items()))
    total = sum(counts.values())
    if call.is_json:
        facts = {"sound": not total, "data": str(verdict.data)}
        facts |= {"queue_manager": verdict.queue_manager, "rows": verdict.rows}
        facts |= {"messages": verdict.messages, "set_aside": verdict.set_aside}
        output.document(facts | {"counts": counts, "findings": findings})
    elif findings:
        output.table(FINDINGS, findings)
    if total > len(findings):
        output.note(f"{humane.counted(total - len(findings), 'more finding')}: --limit shows more")
    if not verdict.is_read:
        output.note("the rows were not looked at: LMDB might crash on such pages")
    if total:
        what = ", ".join(f"{count} {fault}" for fault, count in counts.items())
        raise Failure(
            Exit.FAILED,
            f"{verdict.data} is damaged",
            what,
            "restore it from a snapshot where a finding says so; else see what it means",
        )
    if not call.is_json:
        output.say(
            f"sound: {humane.counted(verdict.rows, 'row')}, {humane.messages(verdict.messages)}"
            + (f"; {verdict.set_aside:,} were set aside before" if verdict.set_aside else "")
        )


def _progress(shown: ExitStack, stage: str, rows: int) -> Callable[[int], object]:
    """Show the next stage in place of the one before."""
    shown.close()
    if stage == "pages":
        shown.enter_context(progress.spinner("LMDB's pages"))
    elif rows >= (PROGRESS_BYTES_MIN if stage == "bytes" else PROGRESS_ROWS_MIN):
        return shown.enter_context(progress.counted(stage, rows))
    return lambda more: None


@command(local=True)
def stat(
    call: Call,
    directory: Directory,
    top: Annotated[
        int, typer.Option(metavar="N", help="The most queues that are listed.", min=0)
    ] = 20,
) -> None:
    """Show what a store is full of: pages, rows by kind, the largest queues.

    Nothing is changed, and a store that a queue manager works on is refused: qmctl status and
    qmctl queue ls tell of that.

    \b
    JSON: an object with
      queue_manager, store_id, boot, turn, last_turn_us, producers
      data                      the file
      file_bytes, map_bytes, page_bytes, used_bytes, free_bytes, overhead_bytes
      tree_depth, leaf_pages, branch_pages, overflow_pages, rows, messages
      transaction               LMDB's last one
      readers, oldest_reader    that were killed and left a trace; the
                                transaction of the oldest
      kinds     an array: kind, rows, bytes
      queues    an array, the largest first: queue, queue_id, kind, depth,
                grouped, delayed, parked (of a subscription), bytes, priorities
                (an object; none of a transmission queue), oldest_us, set_aside

    Examples:
      qmctl store stat /var/lib/qmgrd
      qmctl store stat /backup/monday --top 5
    """
    with _looking_at(directory), progress.spinner("looks at all rows"):
        from qmgrd.verify.census import census

        found: dict[str, Any] = census(directory)
    queues = found["queues"]
    for row in queues:
        if row["kind"] == "transmission":  # These have their turn, whatever their priority.
            row["priorities"] = {}
    if call.is_json:
        output.document(found | {"queues": queues[:top]})
        return
    output.facts(FACTS, found)
    print()
    output.table(KINDS, found["kinds"])
    if queues:
        print()
        output.table(QUEUES, queues[:top])
    if len(queues) > top:
        output.note(f"{humane.counted(len(queues) - top, 'more queue')}: --top shows more")


@contextmanager
def _looking_at(directory: Path) -> Iterator[None]:
    """Turn what keeps a store from being looked at into a Failure."""
    from qmgrd.store.inspect import StoreUnreadable
    from qmgrd.store.offline import StoreInUse

    what = f"cannot look at {directory}"
    try:
        yield
    except StoreInUse as error:
        remedy = "stop it, or take a snapshot and look at that: qmctl snapshot create DIR"
        raise Failure(Exit.REFUSED, what, str(error), remedy) from error
    except StoreUnreadable as error:
        raise Failure(Exit.FAILED, what, str(error)) from error
