"""Dead letters: messages that cannot be consumed move to a backout queue or the dead-letter queue.

    failed too often, rejected ──▶ backout queue of its queue
                                      │ none, or full
    expired, evicted ─────────────────┴──▶ SYSTEM.DEAD.LETTERS
                                              │ full
                                              └──▶ it stays on its queue

The note of a dead letter states the reason, the original queue, and the reasons that consumers gave
(notes.py). A dead letter does not expire, but its note keeps the remaining lifetime. No message is
lost on this path. Messages of links that no local queue accepts also become dead letters
(undeliverable.py). A publication on which a subscriber fails is parked for that subscriber instead
(parked.py).
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_protocol.messages import EXTRA_EXPIRY_MS
from qmgr_protocol.topic import is_subscription
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.system import DEAD_LETTERS
from qmgrd.core.context.context import Context
from qmgrd.core.context.eviction import make_room
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.put import append, prepare
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns import parked
from qmgrd.core.returns.link_shares import LinkShares
from qmgrd.core.returns.transfer import Destination, transfer

UNKNOWN = "?"  # the origin of a copy that has no note
_FAILURES = frozenset(
    {
        ErrorCode.BACKOUT_THRESHOLD_REACHED,
        ErrorCode.DELIVERY_LIMIT_REACHED,
        ErrorCode.MESSAGE_REJECTED,
        ErrorCode.GROUP_FAILED,
        ErrorCode.REDELIVERY_LIMIT_EXCEEDED,
    }
)


class DeadLetters:
    """Moves messages that cannot be consumed to a backout queue or the dead-letter queue."""

    def __init__(self, context: Context, catalogue: Catalogue) -> None:
        self._context = context
        self._catalogue = catalogue
        self._link_shares = LinkShares()

    def make_dead_letter(
        self, queue: Queue, key: bytes, value: bytes, cause: Cause, only: str = ""
    ) -> str:
        """Moves the message under *key* to a dead-letter queue.

        Returns its name, or "" if none accepts it.

        An unreadable message is set aside.

        Args:
            only: The only queue that may receive the message, because it already has other members
                of the group.
        """
        entry = entries.decode(value)
        arrival = keys.place(key)[1]
        if entry.flags == entries.UNREADABLE or (
            entry.shared and entries.open_sound(self._context.tx, value) is None
        ):
            lane.set_aside(queue, self._context.tx, key, value)
            return only or DEAD_LETTERS
        if queue.is_lost(entry, arrival):
            # A restart lost the message.
            lane.lose(queue, self._context.tx, key, value)
            return only or DEAD_LETTERS
        note = self._note(queue, entry, arrival, cause)
        if queue.references is not None and cause.code in _FAILURES:
            parked.park(self._context, queue, key, value, entry, note)
            self._context.event("publication parked", subscription=queue.name, why=cause.why)
            return parked.PLACE
        for name in [only] if only else self._destinations(queue, cause.code):
            place = self._place(name, queue)
            copied = "" if place is None else self._copy_of(place, entry)
            if place is not None and copied and self._remove_looped(place, entry):
                copied = ""
            if place is None or copied not in ("", queue.name):
                if queue.references is None or not is_subscription(copied):
                    continue
                # A publication becomes one dead letter, even for many subscriptions.
                lane.remove(queue, self._context.tx, key, value)
                self._context.mark_changed(queue)
                self._gone(queue, key, entry, name, cause)
                return name
            make_room(
                self._context, self.make_dead_letter, place.queue, 1, entries.record_bytes(entry)
            )
            if transfer(
                self._context,
                queue,
                key,
                value,
                place,
                expires_ms=0,
                note=notes.encode(note),
                for_good=cause.code != ErrorCode.MESSAGE_EXPIRED,
            ):
                self._gone(queue, key, entry, name, cause)
                return name
        self._context.event("dead letter has no place", queue=queue.name, why=cause.why)
        return ""

    def _gone(
        self, queue: Queue, key: bytes, entry: entries.Entry, name: str, cause: Cause
    ) -> None:
        queue.counters.count_dead()
        entry = entry._replace(
            delivered=entries.raised_count(entry.delivered, cause.delivered),
            failed=entries.raised_count(entry.failed, cause.failed),
        )
        queue.record_history(history.DEAD_LETTERED, key, entry, target=name, code=int(cause.code))
        self._context.event("message dead-lettered", queue=queue.name, to=name, why=cause.why)

    def _copy_of(self, place: Destination, entry: entries.Entry) -> str:
        """Returns the queue from which the copy of a message at *place* came, or "".

        Copies from different queues are separate items of work.
        """
        trailer, queue = entries.uid_trailer(entry), place.queue
        position = queue.origins.place(self._context.tx, trailer, place.target.encode())
        if position is None:
            return ""
        arrival = keys.arrival_of(position)
        return str(notes.read(self._context.tx, queue.id, arrival).get("queue", UNKNOWN))

    def _remove_looped(self, place: Destination, entry: entries.Entry) -> bool:
        """Removes the copy of a message at *place* if it came back in a loop. Returns whether.

        A peer needs no right to bring back a message of this queue manager, so the copy may be
        forged. A copy that is leased stays.
        """
        tx, queue = self._context.tx, place.queue
        position = queue.origins.place(tx, entries.uid_trailer(entry), place.target.encode())
        if position is None or (arrival := keys.arrival_of(position)) in queue.leases:
            return False
        key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
        value = tx.get(key)
        if value is None or notes.read(tx, queue.id, arrival).get("code") != ErrorCode.ROUTE_LOOP:
            return False
        removed = lane.remove(queue, tx, key, value)
        queue.record_history(history.REMOVED, key, removed)
        queue.counters.count_purged()
        self._context.mark_changed(queue)
        return True

    def admit(self, record: bytes, extra: Mapping[str, Any], header: notes.Note, peer: str) -> None:
        """Adds a *record* from the queue manager *peer* that was not on any queue here.

        Its note has *header*; *extra* comes from a link.

        Raises:
            RequestError: No queue accepts the record. It is not stored.
        """
        facts = {"queue": header["queue"], "why": name_of(header["code"])}
        try:
            self._put(record, extra, header, peer)
        except RequestError:
            self._context.event("dead letter has no place", **facts)
            raise
        self._context.event(
            "message dead-lettered", queue=facts["queue"], to=DEAD_LETTERS, why=facts["why"]
        )

    def _put(self, record: bytes, extra: Mapping[str, Any], header: notes.Note, peer: str) -> None:
        context = self._context
        queue = self._catalogue.own_queue(DEAD_LETTERS)
        self._link_shares.check(queue, peer, context.config.store.map_bytes)
        context.reserve([record])
        make_room(context, self.make_dead_letter, queue, 1, len(record))
        context.mark_changed(queue)
        limit = queue.longest(context.config.limits.message_max_bytes)
        prepared = prepare(
            queue,
            context.tx,
            context.now,
            context.stamper,
            record,
            limit,
            b"",
            extra,
            is_moved=True,
        )
        left_ms = extra.get(EXTRA_EXPIRY_MS, records.check(record).expiry_ms)
        header = header | ({"left_ms": left_ms} if left_ms else {})
        before = notes.of_peer(prepared.note)
        before.pop("left_ms", None)
        note = notes.encode(before | header)
        prepared = prepared._replace(expires_ms=0, ready_ms=0, note=note)
        before_bytes = queue.counters.bytes
        append(queue, context.tx, prepared, queue.next_arrival())
        self._link_shares.add(peer, queue.counters.bytes - before_bytes)

    def _destinations(self, queue: Queue, code: int) -> list[str]:
        if code in _FAILURES and queue.bounds.backout_queue:
            return [queue.bounds.backout_queue, DEAD_LETTERS]
        return [DEAD_LETTERS]

    def has_destination(self, queue: Queue, code: int) -> bool:
        """Returns whether a queue for dead letters of *queue* exists, even a full one."""
        if queue.references is not None:
            return True
        for name in self._destinations(queue, code):
            with suppress(RequestError):  # No queue has the name of the backout queue.
                if self._catalogue.storing_queue(name) is not queue:
                    return True
        return False

    def threshold(self, queue: Queue, entry: entries.Entry) -> tuple[int, int]:
        """Returns after how many failures a message is not delivered again, and the error code.

        For a subscription, the number is its redelivery limit, or that of the topic, plus 1. 0
        means never.
        """
        bounds = queue.bounds
        if queue.references is None:
            return bounds.backout_threshold, int(ErrorCode.BACKOUT_THRESHOLD_REACHED)
        limit = bounds.redelivery_limit
        if limit < 0:
            topic = entries.publication(self._context.tx, entry).target
            limit = self._catalogue.topics.value(topic, "redelivery_limit")
        return limit + 1, int(ErrorCode.REDELIVERY_LIMIT_EXCEEDED)

    def _place(self, name: str, source: Queue) -> Destination | None:
        try:
            if name == DEAD_LETTERS:
                place = Destination(self._catalogue.own_queue(name))
            else:
                place = Destination(*self._catalogue.destination(name))
        except RequestError:
            return None
        return None if place.queue is source else place

    def _note(self, queue: Queue, entry: entries.Entry, arrival: int, cause: Cause) -> notes.Note:
        context = self._context
        note = notes.read(context.tx, queue.id, arrival) if entry.noted else {}
        now_us = context.now.wall_us
        if cause.failed:
            note = notes.with_attempt(
                note, now_us, cause.failure, cause.reason, cause.text, cause.client
            )
        note |= {
            "code": int(cause.code),
            "reason": cause.reason,
            "text": cause.text,
            "queue": queue.name,
            "manager": context.name,
            "us": now_us,
            "failed": entries.raised_count(entry.failed, cause.failed),
            "delivered": entries.raised_count(entry.delivered, cause.delivered),
        }
        if cause.code == ErrorCode.MESSAGE_EXPIRED:
            note.pop("left_ms", None)
        elif entry.expires_ms:  # A dead letter that fails again keeps its left_ms.
            note["left_ms"] = max(entry.expires_ms - context.now.ms, 0)
        return note
