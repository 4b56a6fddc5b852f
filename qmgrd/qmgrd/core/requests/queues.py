"""Handles operators' requests about queues, status, snapshots and members."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from qmgr_config.model import FRAME_OVERHEAD_BYTES
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind
from qmgrd.core.access.users import Users
from qmgrd.core.catalogue import system
from qmgrd.core.catalogue.attribute import INHIBITS
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import BeginSwitchOver, Context, TakeSnapshot
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.layout import keys
from qmgrd.core.queue import browse
from qmgrd.core.queue.browse import Found
from qmgrd.core.queue.group import browse as group_browse
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import selection
from qmgrd.core.sessions.delivery import Delivery
from qmgrd.core.sessions.page import page, shown
from qmgrd.core.sessions.removal import Removal
from qmgrd.core.sessions.session import Session, error_of
from qmgrd.core.sessions.streams import Streams

ORIGINS_SHOWN = 1_000
# A browse cuts longer records, even if they fit in a frame.
WHOLE_MAX_BYTES = 4 * 1024 * 1024 + records.UID_MAX_BYTES
_URL = re.compile("[a-z][a-z0-9+.-]*://.")


class QueueAdmin:
    """Handles administrative requests. Holds no state."""

    def __init__(
        self,
        context: Context,
        catalogue: Catalogue,
        jobs: Jobs,
        delivery: Delivery,
        streams: Streams,
        users: Users,
        facts: Callable[[], dict[str, Any]],
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._jobs = jobs
        self._delivery = delivery
        self._streams = streams
        self._users = users
        self._removal = Removal(catalogue, delivery, jobs)
        self._facts = facts  # what only the shell knows: uptime, processor time, connections

    def queue_create(self, session: Session, message: m.QueueCreate) -> None:
        """Defines a queue."""
        access = session.access
        row = self._catalogue.create_queue(
            message.queue,
            message.attributes,
            session.owner,
            lambda: (
                access.check_use("queues_max", self._catalogue.owned[access.owner])
                if access is not None
                else None
            ),
        )
        found = self._catalogue.named(message.queue)
        if isinstance(found, Queue):
            self._delivery.used(found)
        self._context.reply(session.connection, message.request_id, row)

    def queue_alter(self, session: Session, message: m.QueueAlter) -> None:
        """Changes attributes of a queue with immediate effect."""
        changed = self._catalogue.alter_queue(message.queue, message.attributes)
        found = self._catalogue.named(message.queue)
        if isinstance(found, Queue):
            self._delivery.queue_altered(found)
        for inhibit in INHIBITS:
            if inhibit in changed:
                event = "inhibited" if changed[inhibit][1] else "inhibit lifted"
                self._context.event(event, queue=message.queue, what=inhibit.split("_")[0])
        if changed:
            self._context.note("info", "queue altered", queue=message.queue, changed=changed)
        row = self._catalogue.show_queue(message.queue)
        self._context.reply(session.connection, message.request_id, row | {"changed": changed})

    def queue_delete(self, session: Session, message: m.QueueDelete) -> None:
        """Deletes a queue immediately. Deleting an alias keeps its target.

        A job then removes the messages of the queue.
        """
        found = self._catalogue.named(message.queue)
        system.check_deletable(message.queue)
        if message.queue in self._catalogue.topics.subscriptions:
            raise RequestError(
                ErrorCode.QUEUE_IS_SUBSCRIPTION,
                f"{message.queue} is a subscription; delete the subscription instead",
            )
        if not isinstance(found, Queue):
            count = self._removal.remove(message.queue)
            self._context.reply(session.connection, message.request_id, {"messages": count})
            return
        if found.is_transmission:
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION,
                f"{message.queue} is the transmission queue of a link; delete the link instead",
            )
        count = found.counters.depth + found.counters.delayed
        if count and not message.purge:
            raise RequestError(
                ErrorCode.QUEUE_NOT_EMPTY,
                f"queue {message.queue} holds {amount(count, 'message')}; "
                "consume or purge them, or delete the queue with its messages",
            )
        self._jobs.check_deletions()
        count = self._removal.remove(message.queue)
        self._context.reply(session.connection, message.request_id, {"messages": count})

    def queue_list(self, session: Session, message: m.QueueList) -> None:
        """Lists a page of queues in the order of names."""
        is_shown = session.shown(Kind.QUEUE)
        names, further = page(self._catalogue.names, message.after, message.limit, is_shown)
        rows, further = shown(names, further, self._catalogue.show_queue, self._context.budget)
        self._context.count_read(len(rows), 0)
        self._context.reply(
            session.connection, message.request_id, {"queues": rows, "next": further}
        )

    def queue_show(self, session: Session, message: m.QueueShow) -> None:
        """Shows a queue with a page of its table of origins."""
        row = self._catalogue.show_queue(message.queue)
        found = self._catalogue.named(message.queue)
        if isinstance(found, Queue):
            found.origins.flush(self._context.tx)
            origins, further = found.origins.entries(
                self._context.tx, message.origins_after, ORIGINS_SHOWN
            )
            row |= {"origins": origins, "origins_next": further}
            self._context.count_read(len(row["origins"]), 0)
        self._context.reply(session.connection, message.request_id, row)

    def status(self, session: Session, message: m.Status) -> None:
        """Reports the state of the queue manager."""
        totals = self._context.totals
        value = {
            "name": self._context.name,
            "store_id": self._context.store_id.hex(),
            "boot": self._context.boot,
            "turn": self._context.turn_number,
            "queues": len(self._catalogue.names),
            "subscriptions": len(self._catalogue.topics.subscriptions),
            "messages": totals.messages,
            "leased": totals.leased,
            "links": len(self._catalogue.links),
            "links_up": sum(x.state.value == "up" for x in self._catalogue.links.values()),
            "producers": self._streams.producer_count,
            "jobs": len(self._jobs.running),
            "store_full": self._context.store_full,
            "maintenance": self._context.is_maintenance,
            "open": self._users.is_open,
        } | self._facts()
        self._context.reply(session.connection, message.request_id, value)

    def snapshot(self, session: Session, message: m.Snapshot) -> None:
        """Makes the shell take a snapshot of this turn.

        The shell replies once the snapshot is written.
        """
        directory = message.directory
        if not (directory.startswith("/") or _URL.match(directory)):
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"{directory[:200]!r} is neither an absolute path on the daemon's host nor a URL",
            )
        self.take_snapshot(session.connection, message.request_id, directory, message.rate_bytes)

    def take_snapshot(
        self, connection: int, request_id: int, directory: str, rate_bytes: int = 0
    ) -> None:
        """Makes the shell take a snapshot. A scheduled snapshot has no *connection* for a reply."""
        context = self._context
        wanted = TakeSnapshot(
            connection, request_id, directory, context.turn_number + 1, rate_bytes
        )
        # The snapshot contains the turn number, so this turn must change the store.
        context.wrote = True
        context.outcome.effects.append(wanted)

    def switch_over(self, session: Session, message: m.SwitchOver) -> None:
        """Makes the shell begin a switch-over. The shell replies before this member ends."""
        wanted = BeginSwitchOver(
            session.connection, message.request_id, message.member, message.epoch
        )
        self._context.outcome.effects.append(wanted)

    def answer_switch_over(self, wanted: BeginSwitchOver, result: Any) -> None:
        """Answers a request to switch over with its value or a RequestError."""
        connection, request_id = wanted.connection, wanted.request_id
        is_error = isinstance(result, RequestError)
        answer = error_of(request_id, result) if is_error else m.Ok(request_id, result)
        self._context.send(connection, answer)

    def browse(self, session: Session, message: m.Browse) -> None:
        """Reads messages without leasing them."""
        queue, context = self._catalogue.local(message.queue, gets=False), self._context
        wanted = selection(
            queue, message.where, message.correlation_id, message.group_id, message.uid
        )
        group_browse.check_cursor(message.after, message.order)
        if message.order != m.PHYSICAL:
            self._check_ordered(message, is_selecting=bool(wanted.prefix))
        page = browse.browse(
            queue,
            context.tx,
            context.now,
            self._found(queue, message, wanted.prefix),
            message.messages_max,
            message.bytes_max,
            wanted.selector,
            min(WHOLE_MAX_BYTES, session.frame_bytes - FRAME_OVERHEAD_BYTES),
            shows_cut=session.piece_bytes > 0,
        )
        context.count_read(page.looked_at, sum(map(len, page.items)))
        further = page.next
        if further is not None and message.group_id:
            place = further[0], further[1]
            further = [*further, browse.number_at(queue, context.tx, place)]
        value = {
            "items": page.items,
            "next": further,
            "delays": page.delays,
            **({"cut": page.cut} if page.cut else {}),
            "queue_id": queue.id,
            "store_id": context.store_id.hex(),
            "wall_us": context.now.wall_us,
        }
        self._context.reply(session.connection, message.request_id, value)

    def _found(self, queue: Queue, message: m.Browse, prefix: bytes) -> Iterator[Found]:
        """Returns the messages of *queue* in the order and from the position of *message*."""
        tx, after, number = self._context.tx, None, 0
        if message.after is not None:
            after, number = (message.after[0], message.after[1]), _number(message.after)
        if message.order == m.ARRIVAL:
            return browse.by_arrival(queue, tx, after)
        if message.order == m.LOGICAL:
            return group_browse.in_logical_order(
                queue, tx, message.after, all_available=message.all_available
            )
        if prefix and message.delayed:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                "delayed messages are not in the index yet: select them with where, for example "
                "where = \"correlation_id = 'k'\"",
            )
        if prefix:
            found = browse.placed(browse.indexed(queue, tx, prefix, after, number))
        else:
            lane = keys.LANE_DELAYED if message.delayed else keys.LANE_READY
            found = browse.placed(browse.behind(queue, tx, lane, after))
        return group_browse.without_incomplete(queue, tx, found) if message.all_available else found

    def _check_ordered(self, message: m.Browse, *, is_selecting: bool) -> None:
        is_by_arrival = message.order == m.ARRIVAL
        if is_selecting or message.delayed or (is_by_arrival and message.all_available):
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                "a browse in arrival order allows only the where selector and covers all messages"
                if is_by_arrival
                else "a browse in logical order allows only where, and covers available messages",
            )


def _number(after: list[int]) -> int:
    """Returns the group number at the end of a position, or 0 if there is none."""
    number = after[2] if len(after) > 2 else 0
    return number if type(number) is int and 0 <= number < 2**32 else 0
