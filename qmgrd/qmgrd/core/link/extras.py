"""Reads what a peer sends next to its records: the remaining time, the delay and the note of each.

    arrival ─▶ known() ─▶ the line, if ordered ─▶ decoded() ─▶ rights, hops ─▶ encoded() ─▶ queue

The peer may send anything, and an ordered stream keeps it in memory. Therefore, all later steps see
only what belongs to a record. A note is decoded once, because this may take 0.1 ms.
"""

from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgrd.core.queue import notes

Extras = list[list[Any]]  # rows [index of the record, map], as in m.Put
_KINDS = ((m.EXTRA_EXPIRY_MS, int), (m.EXTRA_DELAY_MS, int), (m.EXTRA_NOTE, bytes))


def known(put: m.Put) -> Extras:
    """Returns the extras of *put* that belong to its records, without unknown or wrong fields.

    A record has one row, the last one. So the number of rows is limited, and size_of() counts the
    memory of the fields.
    """
    last = {index: extra for index, extra, *_ in put.extras if index < len(put.records)}
    rows = ([index, _known(extra)] for index, extra in last.items())
    return [row for row in rows if row[1]]


def _known(extra: dict[str, Any]) -> dict[str, Any]:
    found = {key: extra[key] for key, kind in _KINDS if type(extra.get(key)) is kind}
    if len(found.get(m.EXTRA_NOTE, b"")) > notes.NOTE_MAX_BYTES:
        del found[m.EXTRA_NOTE]
    return found


def decoded(extras: Extras) -> Extras:
    """Returns *extras* with decoded notes. An invalid note is empty."""
    return [[index, _changed(extra, notes.of_peer)] for index, extra in extras]


def encoded(extras: Extras) -> Extras:
    """Returns *extras* with encoded notes, as they are stored. An empty note is b""."""
    return [[index, _changed(extra, _encoded)] for index, extra in extras]


def _encoded(note: notes.Note) -> bytes:
    return notes.encode(note) if note else b""


def _changed(extra: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    if m.EXTRA_NOTE not in extra:
        return extra
    return extra | {m.EXTRA_NOTE: change(extra[m.EXTRA_NOTE])}


def notes_of(extras: Extras) -> list[bytes]:
    """Returns the encoded notes in *extras*."""
    return [extra[m.EXTRA_NOTE] for _, extra in extras if extra.get(m.EXTRA_NOTE)]
