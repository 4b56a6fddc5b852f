"""Dead letters: what cannot be consumed goes to a backout queue, or to the dead-letter queue.

    failed too often, rejected ──▶ backout queue of its queue ──┐ there is none, or it
    expired, pushed out        ──────────────────────────────▶ SYSTEM.DEAD.LETTERS   │ takes no more
                                                                ◀────────────────────┘
    SYSTEM.DEAD.LETTERS takes no more ──▶ it stays where it is

It takes a note along that says why, from where, and what its consumers said (notes.py), and it
expires no more: the time that it had left stands in the note. Nothing is ever lost on this way.
"""

from typing import NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgrd.core import entry as entries
from qmgrd.core import keys, notes, overflow
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.queue import Queue
from qmgrd.core.system import DEAD_LETTERS
from qmgrd.core.transfer import Place, transfer

_FAILURES = frozenset({
    ErrorCode.BACKOUT_THRESHOLD_REACHED, ErrorCode.DELIVERY_LIMIT_REACHED,
    ErrorCode.MESSAGE_REJECTED,
})  # fmt: skip


class Cause(NamedTuple):
    """Why a message is a dead letter."""

    code: int
    reason: str = ""  # the consumer's
    text: str = ""
    client: str = ""  # that consumer's name
    delivered: bool = False  # whether this raises its counts once more
    failed: bool = False
    failure: int = 0  # why it failed this last time, for its history


class DeadLetters:
    """Where messages go that nobody can consume."""

    def __init__(self, context: Context, catalogue: Catalogue) -> None:
        self._context = context
        self._catalogue = catalogue

    def bury(self, queue: Queue, key: bytes, value: bytes, cause: Cause) -> bool:
        """Have the message under *key* leave *queue*; return whether there was a place for it."""
        entry = entries.decode(value)
        arrival = keys.place(key)[1]
        note = self._note(queue, entry, arrival, cause)
        for name in self._ways(queue, cause.code):
            place = self._place(name, queue)
            if place is None:
                continue
            overflow.make_room(self._context, self, place.queue, 1, entries.record_bytes(entry))
            if transfer(
                self._context, queue, key, value, place, expires_ms=0, note=notes.encode(note)
            ):
                queue.counters.dead += 1
                why = name_of(cause.code)
                self._context.event("message dead-lettered", queue=queue.name, to=name, why=why)
                return True
        self._context.event("dead letter has no place", queue=queue.name, why=name_of(cause.code))
        return False

    def _ways(self, queue: Queue, code: int) -> list[str]:
        if code in _FAILURES and queue.bounds.backout_queue:
            return [queue.bounds.backout_queue, DEAD_LETTERS]
        return [DEAD_LETTERS]

    def _place(self, name: str, source: Queue) -> Place | None:
        try:
            place = Place(*self._catalogue.destination(name))
        except RequestError:
            return None
        return None if place.queue is source else place

    def _note(
        self, queue: Queue, entry: entries.Entry, arrival: int, cause: Cause
    ) -> notes.Note:  # fmt: skip
        context = self._context
        note = notes.read(context.tx, queue.id, arrival) if entry.noted else {}
        now_us = context.now.wall_us
        if cause.failed:
            note = notes.with_attempt(
                note, now_us, cause.failure, cause.reason, cause.text, cause.client
            )
        note |= {
            "code": int(cause.code), "reason": cause.reason, "text": cause.text,
            "queue": queue.name, "manager": context.name, "us": now_us,
            "failed": entries.raised(entry.failed, cause.failed),
            "delivered": entries.raised(entry.delivered, cause.delivered),
        }  # fmt: skip
        note.pop("left_ms", None)
        if entry.expires_ms and cause.code != ErrorCode.MESSAGE_EXPIRED:
            note["left_ms"] = max(entry.expires_ms - context.now.ms, 0)
        return note
