"""qmctl snapshot create: writes a consistent copy of the store, for Spark or as a backup."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated

import typer

from qmgr_tools.cli import completion, humanize, option, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Failure
from qmgr_tools.store import snapshot_list

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

ASK_EVERY_S = 0.25
RATE_MIN = 64 << 10  # minimum of the setting snapshots.rate_bytes

FACTS = (
    output.text("snapshot_id", "snapshot"),
    output.text("queue_manager", "queue manager"),
    output.Column("wall_us", "created", snapshot_list.to_the_second),
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
    """Returns a rate in bytes per second. Refuses a very small rate, which may lack a unit."""
    size = option.size(text)
    if 0 < size < RATE_MIN:
        raise typer.BadParameter(
            f'the rate is less than {humanize.exact_size(RATE_MIN)}; use a unit, as in "20 MiB"'
        )
    return size


Rate = Annotated[
    int,
    typer.Option(
        metavar="SIZE",
        parser=rate_of,
        show_default=False,
        help='Write at most SIZE per second, as in "20 MiB". The minimum is 64 KiB.',
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
    """Write a snapshot of the store to a new directory while the daemon runs.

    The daemon writes the snapshot on its own host. A relative path is resolved in the current
    directory of this command. For a URL such as s3://bucket/monday, the daemon first writes to its
    data directory and then uploads the snapshot. If this command is interrupted, the daemon still
    completes the snapshot. "qmctl status" shows the progress.

    \b
    JSON: the manifest, also written to DIR/manifest.json: an object with
      format, store_format, record_format, lmdb_format
      snapshot_id, queue_manager, store_id, boot, turn, created
      messages, bytes, data_bytes, data_sha256, manifest_sha256
      clock_ms, wall_us   the store's clock and the wall clock at that turn
      queues    an array: queue, kind, depth, delayed, bytes, first_arrival,
                last_arrival, ranges, lost ...
      links     an array: link, commit_id, next_id
      inboxes   an array of inbound links: peer, stream, commit_id, highest_id

    Examples:
      qmctl snapshot create /tmp/monday
      qmctl snapshot create monday --rate "20 MiB" -o json
    """
    path = directory if "://" in directory else str(Path(directory).expanduser().absolute())
    with call.client(f"write a snapshot to {path}") as client, _shown(call):
        manifest = client.admin.snapshot(path, rate)
    if call.is_json:
        output.document(manifest)
        return
    output.say(f"wrote snapshot to {path}")
    output.facts(FACTS, manifest)
    if manifest.get("queues"):
        print()
        output.table(QUEUES, manifest["queues"])


@contextmanager
def _shown(call: Call) -> Iterator[None]:
    """Shows the daemon's progress, which is read over a second connection."""
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
        suppress(Failure),  # The main connection reports errors.
        call.client("read the progress") as client,
        progress.sized("snapshot: starting") as show,
    ):
        while not ended.wait(ASK_EVERY_S):
            _show(client, show)


def _show(client: "Client", show: progress.Sized) -> None:
    facts = client.admin.status().get("snapshot")
    if facts:
        show(f"snapshot: {facts['phase']}", facts["done_bytes"], facts["total_bytes"])
