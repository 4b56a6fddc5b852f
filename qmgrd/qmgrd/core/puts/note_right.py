"""Checks the facts in the notes that a link brings.

A linked queue manager may report failures that happened there. Failures at another queue manager,
or at this one, could be invented. So a note keeps them only if its sender may also send the
messages of that queue manager, with the right to forward.

An operator can return a dead letter to the queue in its note, with the operator's rights.
Therefore, a note from a link must not name a queue on which the user of the link may not put.
"""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import name as names
from qmgr_protocol.errors import RequestError
from qmgr_protocol.need import Right
from qmgrd.core.puts.report_right import Check
from qmgrd.core.queue import notes

# The facts that do not concern a failure: they only end a loop, or describe the way of a message.
_HARMLESS = frozenset({"hops", "came", "retries"})


def without_refused(check: Check, put: m.Put, peer: str, own: str) -> list[list[Any]]:
    """Returns the extras of *put* without the facts that need a right. Its notes are decoded.

    These are failures at other queue managers than the sender *peer*, and original queues on which
    the user may not put. A dead letter may always return to a queue of *peer*.
    """
    return [[index, _checked(check, extra, peer, own)] for index, extra in put.extras]


def _checked(check: Check, extra: dict[str, Any], peer: str, own: str) -> dict[str, Any]:
    note = extra.get(m.EXTRA_NOTE, {})
    manager = note.get("manager")
    if manager == peer or not note.keys() - _HARMLESS:
        return extra
    try:
        check(Right.FORWARD, manager if type(manager) is str else own)
    except RequestError:
        return _with_note(extra, {key: note[key] for key in note if key in _HARMLESS})
    original = notes.original_queue(note, own)
    if not original:
        return extra
    try:
        names.split(original)
        check(Right.PUT, original)
    except RequestError:
        kept = {key: note[key] for key in note if key not in ("queue", "manager")}
        return _with_note(extra, kept)
    return extra


def _with_note(extra: dict[str, Any], note: notes.Note) -> dict[str, Any]:
    return extra | {m.EXTRA_NOTE: note}
