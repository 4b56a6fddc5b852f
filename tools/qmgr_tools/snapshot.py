"""qmctl snapshot: a consistent copy of the store, for Spark or as a backup."""

from pathlib import Path
from typing import Annotated

import typer

from qmgr_tools import completion, output, progress
from qmgr_tools.command import Call, command

FACTS = (
    output.text("snapshot_id", "snapshot"),
    output.text("queue_manager", "queue manager"),
    output.text("created"),
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


@command()
def snapshot(
    call: Call,
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            show_default=False,
            help="A new directory.",
            autocompletion=completion.files,
        ),
    ],
) -> None:
    """Write a snapshot of the store to a new directory, while the daemon works.

    The daemon writes it, on its own host; a relative path starts at this command's directory.

    \b
    JSON: the manifest, which lies in DIR/manifest.json too: an object with
      format, store_format, lmdb_format, snapshot_id, queue_manager, store_id
      boot, turn, created, messages, data_bytes, data_sha256, manifest_sha256
      clock_ms, wall_us   the store's own clock, and the wall clock, of that turn
      queues    an array: queue, kind, depth, delayed, bytes, first_arrival,
                last_arrival, ranges, lost ...

    Examples:
      qmctl snapshot /tmp/monday
      qmctl snapshot monday -o json
    """
    path = str(directory.expanduser().absolute())
    with (
        call.client(f"take a snapshot to {path}") as client,
        progress.spinner("the daemon writes the snapshot"),
    ):
        manifest = client.snapshot(path)
    if call.is_json:
        output.document(manifest)
        return
    output.say(f"written to {path}")
    output.facts(FACTS, manifest)
    if manifest.get("queues"):
        print()
        output.table(QUEUES, manifest["queues"])
