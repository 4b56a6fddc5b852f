"""Checks a single snapshot: ``python -m tests.process.snapshot_check DIR...``.

laws    all checks of qmctl snapshot verify: checksum, pages, rows, numbers in the manifest
units   a unit puts one message on each queue of a family, and another unit gets one from each.
        So all queues hold the same numbers. A token of unit_load.py is on at most one queue.
links   a receiver's window has exactly the ids that were put here. A sender has none of the
        messages that its peer holds, and has all others.

The command prints a line of JSON for each directory, with its faults.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.link import inbox as link_inbox
from qmgrd.store.image import open_image
from qmgrd.verify.verify import verify

NICENESS = 5
FAMILY = tuple(f"FAMILY.{number}" for number in range(4))  # queues of the family
LINKED = "AWAY"  # queue that only a link puts on
SHOWN_MAX = 5
LANES = (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED)


def faults(directory: Path) -> list[str]:
    """Returns the faults of the snapshot in *directory*."""
    found = [f"{one.fault}: {one.what}" for one in verify(directory).findings.kept]
    image = open_image(directory / "data.mdb")
    try:
        with image.transaction() as tx:
            queues = {
                key[1:].decode(): unpack(row)["queue_id"]
                for key, row in rows.scan(tx, keys.SPACE_QUEUE)
                if "queue_id" in unpack(row)
            }
            return [*found, *_units(tx, queues), *_tokens(tx, queues), *_links(tx, queues)]
    finally:
        image.close()


def _bodies(tx: Transaction, queues: dict[str, int], queue: str) -> set[bytes]:
    if queue not in queues:
        return set()
    found = set()
    for lane in LANES:
        start = keys.lane(queues[queue], lane)
        for _, value in tx.scan(start, keys.after(start)):
            found.add(records.decode(entries.record(tx, entries.decode(value))).body)
    return found


def _units(tx: Transaction, queues: dict[str, int]) -> Iterator[str]:
    there = {queue: _bodies(tx, queues, queue) for queue in FAMILY}
    whole = set.intersection(*there.values())
    for queue, bodies in there.items():
        if half := sorted(bodies - whole):
            yield f"units: half of {len(half)} units are on {queue}: {half[:SHOWN_MAX]}"


def _tokens(tx: Transaction, queues: dict[str, int]) -> Iterator[str]:
    source, target = (_bodies(tx, queues, queue) for queue in ("IN", "OUT"))
    if both := sorted(source & target):
        yield f"units: before and after one: {both[:SHOWN_MAX]}"


def _links(tx: Transaction, queues: dict[str, int]) -> Iterator[str]:
    held = 0
    for key, _ in rows.scan(tx, keys.SPACE_LINK_INBOX):
        stream = link_inbox.load(tx, key[1:], 1)
        assert stream is not None
        held += stream.inbox.commit_id + len(stream.inbox.ahead)
    if LINKED in queues:
        puts = Counters.read(tx, queues[LINKED], LINKED).puts
        if puts != held:
            yield f"links: {held} ids are held, {puts} messages were put"
    for key, row in rows.scan(tx, keys.SPACE_LINK):
        yield from _outbox(tx, key[1:].decode(), unpack(row)["queue_id"])


def _outbox(tx: Transaction, link: str, queue_id: int) -> Iterator[str]:
    window = rows.find(tx, keys.of_queue(keys.SPACE_LINK_OUTBOX, queue_id))
    commit_id = 0 if window is None else unpack(window)[0]
    next_id = Counters.read(tx, queue_id, f"@{link}").next_arrival
    start = keys.lane(queue_id, keys.LANE_READY)
    there = [keys.place(key)[1] for key, _ in tx.scan(start, keys.after(start))]
    if there != list(range(commit_id + 1, next_id)):
        ends = f"{there[0]} to {there[-1]}" if there else "none"
        yield f"links: {link} has {len(there)} ids ({ends}); expected {commit_id + 1} to {next_id}"


def main() -> int:
    """Checks all directories on the command line."""
    os.nice(NICENESS)
    for name in sys.argv[1:]:
        told: dict[str, Any] = {"directory": name, "faults": faults(Path(name))}
        print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
