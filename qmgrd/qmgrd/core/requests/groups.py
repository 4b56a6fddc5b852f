"""Handles operators' requests about groups: listing, showing and intervening."""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown
from qmgr_protocol.record import GROUP_FLAGS_AT, GROUP_NUMBER_MAX
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group import intervention_errors
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.sessions.session import Session

MEMBERS_MAX = 1_000  # maximum number of members shown in one reply
GAPS_MAX = 100
LOOKED_AT_MAX = 10_000  # number of groups examined per page if complete groups are omitted
SKIPPED_MAX = 500  # maximum number of members that a skip turns into dead letters


class GroupAdmin:
    """Handles requests about groups."""

    def __init__(
        self, context: Context, catalogue: Catalogue, dead_letters: DeadLetters, secret: bytes
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._dead_letters = dead_letters
        self._secret = secret  # the secret of the store

    def group_new(self, session: Session, message: m.GroupNew) -> None:
        """Returns an unused group id: the next number of this boot, and its keyed hash.

        The hash differs in each store and after each start. A client cannot guess the ids of other
        clients, whose groups it could otherwise end.
        """
        context = self._context
        number = context.ids.next().to_bytes(8, "big")
        seal = blake2b(context.life + number, key=self._secret, person=b"group", digest_size=16)
        context.send(session.connection, m.Ok(message.request_id, number + seal.digest()))

    def group_list(self, session: Session, message: m.GroupList) -> None:
        """Lists groups."""
        queue = self._local(message.queue)
        self._refresh(queue)
        prefix = keys.of_queue(keys.SPACE_GROUP_ROW, queue.id)
        start = prefix + message.after + b"\0" if message.after else prefix
        found: list[dict[str, Any]] = []
        last, looked_at = None, 0
        for key, _ in self._context.tx.scan(start, keys.after(prefix)):
            if len(found) == message.limit or looked_at == LOOKED_AT_MAX:
                break
            looked_at += 1
            last = key[keys.GROUP_ID_AT :]
            row = queue.groups.peek(self._context.tx, last) or GroupRow()
            if not message.incomplete or not row.is_rest_here:
                found.append(self._describe(queue, last, row))
        else:
            last = None
        self._context.count_read(2 * looked_at, 0)
        self._context.reply(session.connection, message.request_id, {"groups": found, "next": last})

    def group_show(self, session: Session, message: m.GroupShow) -> None:
        """Shows a group."""
        queue, row = self._find(message.queue, message.group_id)
        value = self._describe(queue, message.group_id, row)
        value |= self._members(queue, message.group_id, row, message.number)
        self._context.reply(session.connection, message.request_id, value)

    def group_alter(self, session: Session, message: m.GroupAlter) -> None:
        """Intervenes in a group."""
        actions = {
            "pause": self._pause,
            "resume": self._resume,
            "skip": self._skip,
            "reassign": self._reassign,
            "close": self._close,
        }
        action = actions.get(message.action)
        if action is None:
            raise RequestError(
                ErrorCode.VALUE_INVALID, f"{message.action!r} is not one of {', '.join(actions)}"
            )
        queue, row = self._find(message.queue, message.group_id)
        is_changed = action(queue, message.group_id, row, message)
        queue.groups.mark_changed(message.group_id)
        self._context.mark_changed(queue)
        value = self._describe(queue, message.group_id, row) | {"changed": is_changed}
        self._refresh(queue)
        if is_changed:
            event = f"group {_DONE[message.action]}"
            self._context.event(event, queue=queue.name, group=shown(message.group_id))
        self._context.reply(session.connection, message.request_id, value)

    def _local(self, name: str) -> Queue:
        queue = self._catalogue.local(name, gets=False)
        if queue.is_transmission:
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION,
                f"{name} is a transmission queue and has no groups: its messages are in the order "
                "of their ids",
            )
        return queue

    def _refresh(self, queue: Queue) -> None:
        """Updates the rows of groups with the changes of this turn."""
        if queue.refresh_groups(self._context.tx, self._context.now):
            self._context.wake(queue)

    def _find(self, name: str, group_id: bytes) -> tuple[Queue, GroupRow]:
        queue = self._local(name)
        self._refresh(queue)
        row = queue.groups.row(self._context.tx, group_id)
        if row is None:
            raise RequestError(
                ErrorCode.GROUP_UNKNOWN,
                f"queue {name} has no group {shown(group_id)}: no message of the group arrived, "
                "or the "
                "last message was consumed",
            )
        return queue, row

    # The description of a group

    def _describe(self, queue: Queue, group_id: bytes, row: GroupRow) -> dict[str, Any]:
        hold = queue.groups.held_groups.by_group.get(group_id)
        reader = None if hold is None else hold.reader
        now_us = self._context.now.wall_us
        return {
            "group": group_id.hex(),
            "state": row.state,
            "count": row.count,
            "delayed": row.waiting,
            "leased": queue.groups.held_groups.leased_of(group_id),
            "next": row.due,
            "next_is_here": queue.groups.position(self._context.tx, Member(group_id, row.due))
            is not None,
            "last": row.last or None,
            "highest": row.highest,
            "missing": max(row.missing, 0),
            "holder": "" if reader is None else f"{reader.connection} {reader.client}".rstrip(),
            "first_us": row.first_us,
            "age_ms": max(now_us - row.first_us, 0) // 1_000 if row.first_us else 0,
            "parked_number": row.parked_number,
            "parked_code": row.parked_code,
            "closed": row.is_closed,
        }

    def _members(self, queue: Queue, group_id: bytes, row: GroupRow, first: int) -> dict[str, Any]:
        tx = self._context.tx
        prefix = group_index.prefix_of(queue.id, group_id)
        start = keys.group(queue.id, group_id, max(first, 1))
        members: list[dict[str, Any]] = []
        gaps: list[list[int]] = []
        wanted, further = row.after(max(first, row.due)), None
        for key, position in group_index.under(tx, prefix, start):
            number = keys.number_of(key)
            if len(members) == MEMBERS_MAX:
                further = number
                break
            while wanted < number and len(gaps) < GAPS_MAX:
                until = min([number, *(x for x, _ in row.ahead if x >= wanted)])
                if until > wanted:
                    gaps.append([wanted, until - 1])
                wanted = row.after(until)
            wanted = row.after(number + 1)
            if (member := self._member(queue, number, position)) is not None:
                members.append(member)
        self._context.count_read(2 * len(members), 0)
        first_gaps = gaps if first <= row.due else self._first_gap(queue, group_id, row) or gaps
        return {
            "members": members,
            "next_number": further,
            "gaps": gaps,
            "waiting_for": _waiting_for(row, first_gaps),
        }

    def _first_gap(self, queue: Queue, group_id: bytes, row: GroupRow) -> list[list[int]]:
        """Returns the gap at which the group waits, if it is among the first MEMBERS_MAX
        members.
        """
        wanted = row.due
        for key, _ in islice(self._from_due(queue, group_id, row), MEMBERS_MAX):
            self._context.count_read(1, 0)
            number = keys.number_of(key)
            if number > wanted:
                until = min([number, *(x for x, _ in row.ahead if x >= wanted)])
                return [[wanted, until - 1]]
            wanted = row.after(number + 1)
        return []

    def _from_due(
        self, queue: Queue, group_id: bytes, row: GroupRow
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yields the key and position of each member from the due number."""
        start = keys.group(queue.id, group_id, row.due)
        prefix = group_index.prefix_of(queue.id, group_id)
        return group_index.under(self._context.tx, prefix, start)

    def _member(self, queue: Queue, number: int, position: bytes) -> dict[str, Any] | None:
        key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
        value = self._context.tx.get(key)
        if value is None:
            return None
        entry, (priority, arrival) = entries.decode(value), keys.place(key)
        state = "delayed" if position[keys.LANE_AT] == keys.LANE_DELAYED else "ready"
        front = entries.front(self._context.tx, entry)
        left_ms = max(entry.expires_ms - self._context.now.ms, 0) if entry.expires_ms else None
        lease = queue.leases.get(arrival)
        return {
            "number": number,
            "last": len(front) > GROUP_FLAGS_AT and index.is_last(front),
            "priority": priority,
            "arrival": arrival,
            "state": state if lease is None else "leased",
            "client": "" if lease is None else lease.lessee.client,
            "delivered": entry.delivered,
            "failed": entry.failed,
            "put_us": entry.put_us,
            "expires_left_ms": left_ms,
        }

    # Interventions. Each function returns whether it changed the group.

    def _pause(self, queue: Queue, group_id: bytes, row: GroupRow, _: m.GroupAlter) -> bool:
        was_paused, row.is_paused = row.is_paused, True
        queue.groups.held_groups.release(group_id)
        return not was_paused

    def _resume(self, queue: Queue, group_id: bytes, row: GroupRow, _: m.GroupAlter) -> bool:
        was_stopped, row.is_paused = row.is_stopped, False
        self._unpark(queue, group_id, row)
        return was_stopped

    def _unpark(self, queue: Queue, group_id: bytes, row: GroupRow) -> None:
        row.parked_number, row.parked_code = 0, 0
        queue.groups.ripe.pop(group_id, None)
        queue.start_over()

    def _reassign(
        self, queue: Queue, group_id: bytes, row: GroupRow, message: m.GroupAlter
    ) -> bool:
        del row
        held_groups = queue.groups.held_groups
        if not held_groups.can_assign(group_id, message.connection):
            raise intervention_errors.no_reader_error(queue.name, message.connection)
        for freed in held_groups.assign(group_id, message.connection):
            queue.groups.mark_changed(freed)
        held_groups.release(group_id)
        return True

    def _close(self, queue: Queue, group_id: bytes, row: GroupRow, _: m.GroupAlter) -> bool:
        last = row.last or self._highest(queue, group_id, row)
        _check_pending(queue, group_id, last, GROUP_NUMBER_MAX + 1)
        was_closed, row.is_closed, row.last = row.is_closed, True, last
        row.highest = min(row.highest, last)
        return not was_closed

    def _highest(self, queue: Queue, group_id: bytes, row: GroupRow) -> int:
        """Returns the highest number of all members, including those that have left or expired.

        If the group has too many messages to examine, returns the highest number ever stored.
        """
        if row.count + row.waiting > LOOKED_AT_MAX:
            return row.highest
        there = (keys.number_of(key) for key, _ in self._from_due(queue, group_id, row))
        left = sum(row.ahead[-1]) - 1 if row.ahead else row.done
        return max(left, *there, 0)

    def _skip(self, queue: Queue, group_id: bytes, row: GroupRow, message: m.GroupAlter) -> bool:
        number = message.number or self._behind(queue, group_id, row)
        if number <= row.due:
            raise intervention_errors.not_ahead_error(group_id, row.due)
        if 0 < row.last < number - 1:
            raise intervention_errors.beyond_end_error(group_id, number, row.last)
        _check_pending(queue, group_id, row.done, number)
        self._dead_letter_up_to(queue, group_id, row.due, number)
        row.give_up_to(number)
        row.highest = max(row.highest, row.done)
        if 0 < row.parked_number < number:
            self._unpark(queue, group_id, row)
        return True

    def _behind(self, queue: Queue, group_id: bytes, row: GroupRow) -> int:
        """Returns the default number to which a skip advances."""
        first = next(self._from_due(queue, group_id, row), None)
        if first is None:
            raise intervention_errors.no_members_error(group_id)
        number = keys.number_of(first[0])
        return row.due + 1 if number == row.due else number

    def _dead_letter_up_to(self, queue: Queue, group_id: bytes, due: int, number: int) -> None:
        """Makes dead letters of the members from *due* up to but not including *number*."""
        tx = self._context.tx
        start, stop = (keys.group(queue.id, group_id, x) for x in (due, number))
        members = group_index.under(tx, group_index.prefix_of(queue.id, group_id), start)
        below = takewhile(lambda member: member[0] < stop, members)
        found = list(islice(below, SKIPPED_MAX + 1))
        if len(found) > SKIPPED_MAX:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"more than {SKIPPED_MAX} members are below number {number}; skip fewer at a time",
            )
        for at, position in found:
            lease = queue.leases.get(keys.arrival_of(position))
            if lease is not None:
                which = keys.number_of(at)
                raise intervention_errors.leased_member_error(
                    queue.name, group_id, which, lease.lessee.client
                )
        for _, position in found:
            key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
            value = tx.get(key)
            if value is not None and not self._dead_letters.make_dead_letter(
                queue, key, value, _SKIPPED
            ):
                raise RequestError(
                    ErrorCode.QUEUE_FULL, "no queue accepts the skipped messages", 1_000
                )


_SKIPPED = Cause(
    int(ErrorCode.MESSAGE_REJECTED),
    "skipped",
    "by an operator",
    event_text="skipped by an operator",
)
_DONE = {
    "pause": "paused",
    "resume": "resumed",
    "skip": "skipped",
    "reassign": "reassigned",
    "close": "closed",
}


def _check_pending(queue: Queue, group_id: bytes, above: int, below: int) -> None:
    """Raises DUPLICATE_UNCOMMITTED if an open unit puts a number that the skip would pass."""
    number = queue.groups.pending.first(group_id, above, below)
    if number:
        raise RequestError(
            ErrorCode.DUPLICATE_UNCOMMITTED,
            f"an open unit of work puts number {number} of group {shown(group_id)} on queue "
            f"{queue.name}; retry after the unit has ended",
            1_000,
        )


def _waiting_for(row: GroupRow, gaps: list[list[int]]) -> str:
    """Returns a description of the message or event for which a group waits."""
    if row.parked_number:
        return f"an operator: number {row.parked_number} failed"
    if row.is_paused:
        return "an operator: the group is paused"
    if gaps:
        first, last = gaps[0]
        return f"number {first}" if first == last else f"numbers {first} to {last}"
    if row.last:
        return "nothing" if row.highest >= row.last else f"numbers up to {row.last}"
    return f"number {row.highest + 1}, or an end"
