"""qmctl snapshot create: a consistent copy of the store, for Spark or as a backup."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated

import typer

from qmgr_tools.cli import completion, option, output, progress
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Failure
from qmgr_tools.store import snapshot_list as snapshot_look

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

ASK_EVERY_S = 0.25
RATE_MIN = 64 << 10  # as snapshots.rate_bytes has it
PHASES = {
    "starting": "begins",
    "writing": "is written",
    "counting": "is counted",
    "uploading": "is uploaded",
}

FACTS = (
    output.text("snapshot_id", "snapshot"),
    output.text("queue_manager", "queue manager"),
    output.Column("wall_us", "created", snapshot_look.to_the_second),
    output.count("turn"),
    output.count("messages"),
    output.size("data_bytes", "size"),
    output.text("data_sha256", "sha-256"),
)
QUEUES = (
    output.text("queue"),
    output.text("kind"),
    output.count("depth"),
    output.count("delayed"),
    output.size("bytes"),
    output.count("first_arrival"),
    output.count("last_arrival"),
)


def rate_of(text: str | int) -> int:
    """Return bytes a second; so few that a snapshot would take days are a unit forgotten."""
    size = option.size(text)
    if 0 < size < RATE_MIN:
        raise typer.BadParameter(f'at least {humane.exact_size(RATE_MIN)}, as in "20 MiB"')
    return size


Rate = Annotated[
    int,
    typer.Option(
        metavar="SIZE",
        parser=rate_of,
        show_default=False,
        help='The most to write in a second, as in "20 MiB"; at least 64 KiB.',
    ),
]


@command()
def create(
    call: Call,
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            show_default=False,
            help="A new directory, or a URL.",
            autocompletion=completion.files,
        ),
    ],
    rate: Rate = 0,
) -> None:
    """Write a snapshot of the store to a new directory, while the daemon works.

    The daemon writes it, on its own host; a relative path starts at this command's directory. A URL
    as s3://bucket/monday is written to the data directory first, then copied. Once begun it is
    finished, even where this command is interrupted: qmctl status tells how far it is.

    \b
    JSON: the manifest, which lies in DIR/manifest.json too: an object with
      format, store_format, record_format, lmdb_format
      snapshot_id, queue_manager, store_id, boot, turn, created
      messages, bytes, data_bytes, data_sha256, manifest_sha256
      clock_ms, wall_us   the store's own clock, and the wall clock, of that turn
      queues    an array: queue, kind, depth, delayed, bytes, first_arrival,
                last_arrival, ranges, lost ...
      links     an array: link, commit_id, next_id
      inboxes   an array, of links that end here: peer, stream, commit_id,
                highest_id

    Examples:
      qmctl snapshot create /tmp/monday
      qmctl snapshot create monday --rate "20 MiB" -o json
    """
    path = directory if "://" in directory else str(Path(directory).expanduser().absolute())
    with call.client(f"take a snapshot to {path}") as client, _shown(call):
        manifest = client.admin.snapshot(path, rate)
    if call.is_json:
        output.document(manifest)
        return
    output.say(f"written to {path}")
    output.facts(FACTS, manifest)
    if manifest.get("queues"):
        print()
        output.table(QUEUES, manifest["queues"])


@contextmanager
def _shown(call: Call) -> Iterator[None]:
    """Show how far the daemon is, asked over a connection beside."""
    if not sys.stderr.isatty():
        yield
        return
    ended = Event()
    asker = Thread(target=_ask, args=(call, ended), daemon=True)
    asker.start()
    try:
        yield
    finally:
        ended.set()
        asker.join()


def _ask(call: Call, ended: Event) -> None:
    with (
        suppress(Failure),  # What goes wrong is told by who waits for the snapshot.
        call.client("ask how far it is") as client,
        progress.sized("the snapshot begins") as show,
    ):
        while not ended.wait(ASK_EVERY_S):
            _show(client, show)


def _show(client: "Client", show: progress.Sized) -> None:
    facts = client.admin.status().get("snapshot")
    if facts:
        phase = PHASES.get(facts["phase"], facts["phase"])
        show(f"the snapshot {phase}", facts["done_bytes"], facts["total_bytes"])
