"""Checks the original queue in the notes that a link brings.

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


def without_refused(check: Check, put: m.Put, peer: str, own: str) -> list[list[Any]]:
    """Returns the decoded extras of *put*: no note names a queue that the user may not put on.

    Such a note loses its original queue. A dead letter may always return to a queue of *peer*, the
    queue manager that sent it.
    """
    return [[index, _checked(check, extra, peer, own)] for index, extra in put.extras]


def _checked(check: Check, extra: dict[str, Any], peer: str, own: str) -> dict[str, Any]:
    note = extra.get(m.EXTRA_NOTE, {})
    original = notes.original_queue(note, own)
    if not original or note["manager"] == peer:
        return extra
    try:
        names.split(original)
        check(Right.PUT, original)
    except RequestError:
        kept = {key: note[key] for key in note if key not in ("queue", "manager")}
        return extra | {m.EXTRA_NOTE: kept}
    return extra
