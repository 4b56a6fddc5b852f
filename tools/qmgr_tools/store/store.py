"""qmctl store: examines a store that no queue manager uses."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from qmgr_tools.cli import completion, humanize, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure

Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        show_default=False,
        autocompletion=completion.files,
        help="The data directory of a stopped daemon, or a snapshot.",
    ),
]
PROGRESS_ROWS_MIN = 100_000
PROGRESS_BYTES_MIN = 256 << 20

FINDINGS = (
    output.text("fault"),
    output.long_text("key"),
    output.long_text("what"),
    output.long_text("means", "EFFECT"),
)
FACTS = (
    output.text("queue_manager", "queue manager"),
    output.text("store_id", "store"),
    output.count("boot"),
    output.count("turn"),
    output.Column("last_turn_us", "last turn", humanize.rfc3339),
    output.text("data", "file"),
    output.size("file_bytes", "file size"),
    output.size("map_bytes", "store limit"),
    output.size("used_bytes", "used"),
    output.size("free_bytes", "free in the file"),
    output.size("overhead_bytes", "overhead"),
    output.size("journal_bytes", "journal"),
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
    output.count("unindexed", "index rows saved"),
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
    output.Column("oldest_us", "OLDEST PUT", humanize.rfc3339),
    output.count("set_aside"),
    output.Column("priorities", "BY PRIORITY", _by_priority, is_long=True),
)


@command(local=True)
def verify(
    call: Call,
    directory: Directory,
    limit: Annotated[int, typer.Option(metavar="N", help="List at most N findings.", min=0)] = 100,
) -> None:
    """Check a store for damage: LMDB pages, checksums, counters, indexes, long messages.

    After a kill, the command first stores the turns of the journal, as a start does. Otherwise, it
    changes nothing. A store that a queue manager uses is refused: stop the daemon, or
    verify a snapshot. A million messages take about ten seconds. The exit code is 1 if the store is
    damaged.

    \b
    JSON: an object with
      sound, data, queue_manager     whether the store is undamaged; file; name
      rows, messages                 numbers of examined rows and messages
      set_aside                      number of damaged messages already set aside
      counts                         an object: number of findings by fault
      findings                       an array: fault, key (in hex), what, means

    Examples:
      qmctl store verify /var/lib/qmgrd
      qmctl store verify /backup/monday -o json
    """
    with _failures(directory):
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
        output.note(
            f"{humanize.counted(total - len(findings), 'more finding')}; to show more: --limit"
        )
    if not verdict.is_read:
        output.note("the rows were not examined, because LMDB might crash on damaged pages")
    if total:
        what = ", ".join(f"{count} {fault}" for fault, count in counts.items())
        raise Failure(
            Exit.FAILED,
            f"{verdict.data} is damaged",
            what,
            "restore the store from a snapshot if the effect of a finding requires this",
        )
    if not call.is_json:
        output.say(
            f"sound: {humanize.counted(verdict.rows, 'row')}, {humanize.messages(verdict.messages)}"
            + (f"; {verdict.set_aside:,} already set aside" if verdict.set_aside else "")
        )


def _progress(shown: ExitStack, stage: str, rows: int) -> Callable[[int], object]:
    """Shows the progress of the next stage instead of the previous stage."""
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
    top: Annotated[int, typer.Option(metavar="N", help="List at most N queues.", min=0)] = 20,
) -> None:
    """Show the contents of a store: pages, rows by kind, and the largest queues.

    After a kill, the command first stores the turns of the journal, as a start does. Otherwise, it
    changes nothing. A store that a queue manager uses is refused; use "qmctl status" and "qmctl
    queue ls" instead.

    \b
    JSON: an object with
      queue_manager, store_id, boot, turn, last_turn_us, producers
      data                      the file
      file_bytes, map_bytes, page_bytes, used_bytes, free_bytes, overhead_bytes,
      journal_bytes
      tree_depth, leaf_pages, branch_pages, overflow_pages, rows, messages
      unindexed                 messages without a row in the UID index, because
                                their UIDs are in the order of arrival
      transaction               the last transaction of LMDB
      readers, oldest_reader    slots of readers that were killed; the oldest
                                transaction of these readers
      kinds     an array: kind, rows, bytes
      queues    an array, largest first: queue, queue_id, kind, depth,
                grouped, delayed, parked (of a subscription), bytes, priorities
                (an object; empty for a transmission queue), oldest_us,
                set_aside, unindexed

    Examples:
      qmctl store stat /var/lib/qmgrd
      qmctl store stat /backup/monday --top 5
    """
    with _failures(directory), progress.spinner("reading all rows"):
        from qmgrd.verify.content import store_content

        found: dict[str, Any] = store_content(directory)
    queues = found["queues"]
    for row in queues:
        if row["kind"] == "transmission":  # A link ignores priorities.
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
        output.note(f"{humanize.counted(len(queues) - top, 'more queue')}; to show more: --top")


@contextmanager
def _failures(directory: Path) -> Iterator[None]:
    """Turns errors when opening a store into a Failure."""
    from qmgrd.store.inspect import StoreUnreadable
    from qmgrd.store.offline import StoreInUse

    what = f"cannot examine {directory}"
    try:
        yield
    except StoreInUse as error:
        remedy = "stop the daemon, or examine a snapshot: qmctl snapshot create DIR"
        raise Failure(Exit.REFUSED, what, str(error), remedy) from error
    except StoreUnreadable as error:
        raise Failure(Exit.FAILED, what, str(error)) from error
