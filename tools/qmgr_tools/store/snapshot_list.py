"""qmctl snapshot ls, verify: lists snapshots, and checks them for damage."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, humanize, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure

if TYPE_CHECKING:
    from qmgrd.snapshot.finder import StoredSnapshot

Places = Annotated[
    list[str],
    typer.Argument(
        metavar="DIR",
        show_default=False,
        autocompletion=completion.files,
        help="Snapshots, directories of snapshots, patterns or URLs.",
    ),
]
BAR_BYTES_MIN = 64 << 20


def to_the_second(time_us: int) -> str:
    """Returns a time in microseconds as RFC 3339 in seconds, to identify a snapshot."""
    return f"{humanize.rfc3339(time_us).partition('.')[0]}Z"


ROWS = (
    output.whole("directory", "SNAPSHOT"),
    output.text("queue_manager", "MANAGER"),
    output.Column("created_us", "CREATED", to_the_second),
    output.count("turn"),
    output.count("messages"),
    output.size("data_bytes", "SIZE"),
    output.text("state"),
    output.long_text("why", "FAULT"),
)
VERDICTS = (
    output.whole("directory", "SNAPSHOT"),
    output.text("state"),
    output.count("rows"),
    output.count("messages"),
    output.long_text("why", "FAULT"),
)


@command(local=True)
def ls(call: Call, places: Places) -> None:
    """List snapshots with queue manager, time and size, and check their manifests.

    The snapshots of each queue manager are listed oldest first, and damaged snapshots last. The
    command checks manifests and file sizes. To check the data as well, use "qmctl snapshot verify".
    No daemon is needed. The exit code is 1 if a snapshot is damaged.

    \b
    JSON: an array of objects with
      directory      the path or URL
      state          sound, damaged
      why            the fault, or ""
      snapshot_id, queue_manager, store_id, boot, turn, created_us, messages,
      data_bytes, format        omitted if the snapshot is damaged

    Examples:
      qmctl snapshot ls /backup
      qmctl snapshot ls '/backup/NYC-*' s3://bucket/qmgrd -o json
    """
    rows = sorted((_row(directory) for directory in found_in(places)), key=_age)
    if call.is_json:
        output.document(rows)
    else:
        output.table(ROWS, rows)
    _end(rows)


def found_in(places: list[str]) -> list[str]:
    """Returns the directories and URLs of the snapshots in *places*.

    Raises:
        Failure: NOT_FOUND if one of *places* has no snapshot.
    """
    from qmgrd.snapshot.finder import SnapshotUnreadable, directories

    try:
        return directories(places)
    except SnapshotUnreadable as error:
        raise Failure(Exit.NOT_FOUND, "cannot read snapshots", str(error)) from error


def facts(snapshot: "StoredSnapshot") -> dict[str, Any]:
    """Returns the row of a readable snapshot."""
    return {
        "directory": snapshot.directory,
        "state": "sound",
        "why": "",
        "snapshot_id": snapshot.id,
        "queue_manager": snapshot.queue_manager,
        "store_id": snapshot.store_id,
        "boot": snapshot.boot,
        "turn": snapshot.turn,
        "created_us": snapshot.wall_us,
        "messages": snapshot.messages,
        "data_bytes": snapshot.data_bytes,
        "format": snapshot.format,
    }


def _row(directory: str) -> dict[str, Any]:
    from qmgrd.snapshot.finder import SnapshotUnreadable, read

    try:
        return facts(read(directory))
    except SnapshotUnreadable as error:
        why = str(error).removeprefix(directory).lstrip("/: ")
        return {"directory": directory, "state": "damaged", "why": why}


def _age(row: dict[str, Any]) -> tuple[bool, str, int]:
    """Returns the sort key: sound snapshots first, by queue manager, oldest first."""
    return row["state"] != "sound", row.get("queue_manager", ""), row.get("created_us", 0)


def _end(rows: list[dict[str, Any]]) -> None:
    damaged = [row["directory"] for row in rows if row["state"] != "sound"]
    if damaged:
        raise Failure(
            Exit.FAILED,
            f"{len(damaged)} of {humanize.counted(len(rows), 'snapshot')} damaged",
            ", ".join(damaged),
            "create or copy these snapshots again",
        )


@command(local=True)
def verify(call: Call, places: Places) -> None:
    """Check the data of snapshots: checksums, LMDB pages, consistency of rows, counts.

    The counts and positions in the manifest are compared with the data. A snapshot at a URL is
    first copied to a temporary directory. A million messages take about ten seconds. The exit code
    is 1 if a snapshot is damaged.

    \b
    JSON: an array of objects with
      directory, state, why      as in qmctl snapshot ls
      rows, messages             numbers of examined rows and messages
      counts                     an object: number of findings by fault

    Examples:
      qmctl snapshot verify /backup/monday
      qmctl snapshot verify /backup -o json
    """
    directories = found_in(places)
    rows = []
    for number, directory in enumerate(directories, start=1):
        rows.append(_verified(directory, f"{number} of {len(directories)}"))
    if call.is_json:
        output.document(rows)
    else:
        output.table(VERDICTS, rows)
    _end(rows)


def _verified(directory: str, which: str) -> dict[str, Any]:
    from qmgrd.store.inspect import StoreUnreadable
    from qmgrd.verify import verify as verification

    row = _row(directory)
    if row["state"] != "sound":
        return {**row, "rows": 0, "messages": 0, "counts": {"manifest": 1}}
    try:
        with _at_hand(directory, row["data_bytes"], which) as here, ExitStack() as shown:
            verdict = verification.verify(here, lambda *what: _show(shown, which, *what))
    except (StoreUnreadable, OSError) as error:
        why = {"state": "damaged", "why": str(error), "counts": {"pages": 1}}
        return {"directory": directory, "rows": 0, "messages": 0, **why}
    counts = dict(sorted(verdict.findings.counts.items()))
    found = verdict.findings.kept
    return {
        "directory": directory,
        "state": "damaged" if counts else "sound",
        "why": f"{found[0].fault}: {found[0].what}" if found else "",
        "rows": verdict.rows,
        "messages": verdict.messages,
        "counts": counts,
    }


@contextmanager
def _at_hand(directory: str, size: int, which: str) -> Iterator[Path]:
    """Yields a local directory that contains the snapshot."""
    from qmgrd.snapshot import remote
    from qmgrd.snapshot.manifest import MANIFEST

    if not remote.is_url(directory):
        yield Path(directory)
        return
    with tempfile.TemporaryDirectory(prefix="qmctl-") as here:
        try:
            (Path(here) / MANIFEST).write_bytes(remote.manifest(directory))
            with (
                (Path(here) / remote.DATA).open("wb") as file,
                _bar(f"{which}: downloading", size) as advance,
            ):
                remote.fetch(directory, lambda piece: advance(file.write(piece)))
        except remote.RemoteFailed as error:
            raise Failure(Exit.FAILED, f"cannot verify {directory}", str(error)) from error
        yield Path(here)


@contextmanager
def _bar(words: str, size: int) -> Iterator[Callable[[int], object]]:
    with progress.sized(words) as show:
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            show(words, done, size)

        yield advance


def _show(shown: ExitStack, which: str, stage: str, total: int) -> Callable[[int], object]:
    """Shows the progress of the next stage instead of the previous stage."""
    shown.close()
    if stage == "pages":
        shown.enter_context(progress.spinner(f"{which}: LMDB pages"))
    elif stage == "bytes" and total >= BAR_BYTES_MIN:
        return shown.enter_context(_bar(f"{which}: checksum", total))
    elif stage == "rows":
        return shown.enter_context(progress.counted(f"{which}: rows", total))
    return lambda more: None
