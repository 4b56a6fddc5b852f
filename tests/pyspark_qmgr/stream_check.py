"""Checks the output of a stream against the history that a witness read, and against the store."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from qmgrd.core.layout import keys
from qmgrd.store.image import open_image
from tests.qmgrd.core.past import Told, replay, tell

SHOWN_MAX = 5


def faults(
    dump: pa.Table, store_id: str, rows: list[tuple[int, bytes]], stored: set[tuple[int, int]]
) -> list[str]:
    """Returns the faults in *dump*: the output must have each event of the history once.

    Args:
        rows: The history, as a witness read it.
        stored: The queue id and arrival of each message that exists at the end.
    """
    told = [one for seq, data in rows for one in tell(seq, data)]
    expected = _numbered(told)
    columns = [dump.column(name).to_pylist() for name in ("store_id", "seq", "number")]
    found = Counter(zip(*columns, strict=True))
    wanted = {(store_id, one.seq, number) for one, number in expected}
    wrong = [
        *_shown("not in the output", wanted - found.keys()),
        *_shown("in the output, but never happened", found.keys() - wanted),
        *_shown("more than once", {event for event, count in found.items() if count > 1}),
    ]
    if not wrong:
        wrong += _differences(dump, expected)
    try:
        left = replay(told)
    except AssertionError as error:
        return [*wrong, f"the history itself: {error}"]
    wrong += _shown("in the store, but not according to the history", stored - left)
    wrong += _shown("not in the store, but existing according to the history", left - stored)
    return wrong


def stored_in(data_file: Path, queue_ids: set[int]) -> set[tuple[int, int]]:
    """Returns the queue id and arrival of each message. The daemon must be stopped."""
    found: set[tuple[int, int]] = set()
    image = open_image(data_file)
    with image.transaction() as tx:
        for queue_id in queue_ids:
            prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
            for key, _ in tx.scan(prefix, keys.after(prefix)):
                found.add((queue_id, keys.place(key)[1]))
    image.close()
    return found


def _numbered(told: list[Told]) -> list[tuple[Told, int]]:
    found = []
    seq = number = 0
    for one in told:
        seq, number = one.seq, number + 1 if one.seq == seq else 1
        found.append((one, number))
    return found


def _differences(dump: pa.Table, expected: list[tuple[Told, int]]) -> list[str]:
    """Returns the events whose output differs from the history."""
    order = [("seq", "ascending"), ("number", "ascending")]
    names = [
        "event",
        "queue",
        "arrival",
        "priority",
        "message_id",
        "record_bytes",
        "peer",
        "target",
        "queue_id",
    ]
    rows = zip(*(dump.sort_by(order).column(name).to_pylist() for name in names), strict=True)
    differ = []
    for row, (one, _) in zip(rows, expected, strict=True):
        told: tuple[Any, ...] = (
            one.event,
            one.queue,
            one.arrival,
            one.priority,
            one.message_id,
            one.size,
            one.peer or None,
            one.target or None,
            one.queue_id,
        )
        if row != told:
            differ.append(f"{row} instead of {told}")
    return _shown("different from the history", set(differ))


def _shown(what: str, found: set[Any]) -> list[str]:
    if not found:
        return []
    return [f"{len(found)} events {what}: {', '.join(map(str, sorted(found)[:SHOWN_MAX]))}"]
