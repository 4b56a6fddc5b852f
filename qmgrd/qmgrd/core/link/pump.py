"""Sends the messages of a link.

Decides which path sends which put, and which puts are sent again.
"""

from collections import deque
from typing import TYPE_CHECKING

from qmgrd.core.context.context import Context
from qmgrd.core.layout.entry import WHOLE
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.link.path import LATE_MS, LinkState, Path
from qmgrd.core.link.puts import SendRoom, cut, size_of

if TYPE_CHECKING:
    from qmgrd.core.link.link import Link

PUMP_MESSAGES = 1_000  # the maximum number of messages per turn, to leave time for other work
PUMP_BYTES = 1024 * 1024
STORED_SHARE = 16  # of so many messages sent again, a peer should store more than one


class LinkPump:
    """The sender of a link. Its state is in memory only: uncommitted messages are sent again.

    Invariant: each id between commit id and cursor (``outbox.sent_id``) is held by the peer or in
        flight. Otherwise, the peer refused the message or it is too long for the peer, and the link
        is blocked.
    """

    def __init__(self, link: "Link", context: Context) -> None:
        self.highest_sent = link.outbox.commit_id
        self.resent = 0
        # The sizes of messages that are too long for the peer, by id.
        self.too_long: dict[int, int] = {}
        self._link = link
        self._context = context
        # The last id and the size of each put up to the cursor.
        self._above: deque[tuple[int, int]] = deque()
        self._above_bytes = 0
        # The commit id, and the number of messages above it, when the peer last discarded some.
        self._discarded = -1, 0
        self._discards = 0  # how often in a row the peer stored nearly none of them
        self._is_waiting = False  # whether a timer is set to send them again

    def committed(self) -> None:
        """Continues once the peer has reported which ids it holds and which records it received."""
        outbox = self._link.outbox
        gap = outbox.commit_id + 1
        is_kept = gap in outbox.held or gap in self.too_long
        if gap <= outbox.sent_id and not is_kept and not self._is_in_flight(gap):
            # The peer received some puts without storing them. A blocked link waits anyway.
            if self._may_send:
                self._send_discarded()
            else:
                self.go_back(outbox.commit_id)
        self._context.awake_queues[self._link.queue.id] = self._link.queue

    def _send_discarded(self) -> None:
        """Sends again what the peer discarded, later each time if it stores nearly nothing.

        Otherwise, a peer could discard the same messages in each turn.
        """
        if self._is_waiting:
            return
        commit_id, limits = self._link.outbox.commit_id, self._context.config.link
        before, count = self._discarded
        if commit_id - before > count // STORED_SHARE:
            self._discards = 0
        self._discards += 1
        if self._discards == 1:
            self._send_again()
            return
        wait_ms = min(limits.redial_max_ms, limits.redial_min_ms << min(self._discards - 2, 20))
        self._is_waiting = True
        self._context.timers.at(self._context.now.ms + wait_ms, self._send_again)

    def _send_again(self) -> None:
        outbox, self._is_waiting = self._link.outbox, False
        if self._link.queue.deleted:
            return
        self._discarded = outbox.commit_id, outbox.sent_id - outbox.commit_id
        self.go_back(outbox.commit_id)

    def _is_in_flight(self, seq_id: int) -> bool:
        return any(path.flight.has(seq_id) for path in self._link.paths)

    def go_back(self, seq_id: int) -> None:
        """Sends the messages after *seq_id* again, except those that are held or in flight."""
        self.too_long.clear()
        self._link.outbox.go_back(seq_id)
        self._context.awake_queues[self._link.queue.id] = self._link.queue

    def run(self) -> None:
        """Sends the messages that the window allows. Each put takes the path with the most room."""
        link = self._link
        if not self._may_send or link.queue.bounds.get_inhibit:
            return
        outbox, queue, up = link.outbox, link.queue, self._in_time() or link.up_paths
        outbox.in_flight = set()
        if outbox.sent_id < self.highest_sent:
            outbox.in_flight.update(*(path.flight.ids() for path in link.paths))
        messages_left, bytes_left = PUMP_MESSAGES, min(PUMP_BYTES, self._room())
        share = -(-PUMP_MESSAGES // len(up))
        while messages_left > 0 and bytes_left > 0:
            path = max(up, key=Path.room)
            before, in_flight = outbox.sent_id, path.flight.bytes
            room = min(bytes_left, path.room())
            if room <= 0 or not self._send(path, min(share, messages_left), room):
                break
            messages_left -= outbox.sent_id - before
            bytes_left -= path.flight.bytes - in_flight
        outbox.set_aside()
        queue.positions.sent_id = max(queue.positions.sent_id, outbox.sent_id)
        if outbox.sent_id + 1 < queue.counters.next_arrival:
            if (messages_left <= 0 or bytes_left <= 0) and self._room() > 0:
                self._context.awake_queues[queue.id] = queue  # The next turn continues from here.
            else:
                for path in link.up_paths:
                    path.ask()
        link.watch.set()

    @property
    def _may_send(self) -> bool:
        """Whether the link may send.

        A message that is too long for the peer does not stop the others.
        """
        link = self._link
        if link.state is LinkState.BLOCKED:
            return link.blocked_id in self.too_long and bool(link.up_paths)
        return link.state is LinkState.UP

    def _room(self) -> int:
        """Returns the number of bytes that may be sent now, or 0 if the window of messages is full.

        A late put delays only its own path. For an ordered link, all uncommitted bytes count,
        because the peer keeps them in memory.
        """
        outbox = self._link.outbox
        if outbox.sent_id >= outbox.commit_id + outbox.window:
            return 0
        in_flight = sum(path.flight.bytes for path in self._in_time() or self._link.paths)
        if self._link.row.get("ordered", False):
            in_flight = max(in_flight, self._count_above())
        return self._context.config.link.window_bytes - in_flight

    def _count_above(self) -> int:
        """Returns the number of bytes between commit id and cursor."""
        above, outbox = self._above, self._link.outbox
        while above and above[0][0] <= outbox.commit_id:
            self._above_bytes -= above.popleft()[1]
        # The cursor went back, so these puts are sent again.
        while above and above[-1][0] > outbox.sent_id:
            self._above_bytes -= above.pop()[1]
        return self._above_bytes

    @property
    def due_ms(self) -> int | None:
        """The time that a put may take, based on the fastest path, or None for a single path."""
        took = [path.took_ms for path in self._link.up_paths]
        return 2 * min(took) + LATE_MS if len(took) > 1 else None

    def _in_time(self) -> list[Path]:
        """Returns the paths that are up and have no late puts."""
        due_ms = self.due_ms
        return [path for path in self._link.up_paths if due_ms is None or not path.is_late(due_ms)]

    def send_over(self, path: Path, ids: range) -> None:
        """Sends *ids* over *path* as well, even if they are in flight over other paths."""
        outbox, sent_id = self._link.outbox, self._link.outbox.sent_id
        outbox.sent_id, outbox.in_flight = max(ids.start - 1, outbox.commit_id), set()
        self._send(path, ids.stop - 1 - outbox.sent_id, max(path.room(), 1))
        outbox.sent_id = max(outbox.sent_id, sent_id)
        outbox.set_aside()

    def _send(self, path: Path, messages: int, bytes_max: int) -> bool:
        """Sends over *path* as much as fits. Returns whether the cursor of the outbox moved."""
        if path.is_sending_pieces:
            return False
        outbox, welcome = self._link.outbox, path.welcome
        before = outbox.sent_id
        messages = min(messages, welcome.put_window_messages - path.flight.messages)
        is_ordered = self._link.row.get("ordered", False)
        room = SendRoom(
            path.stream,
            messages,
            bytes_max,
            path.frame_bytes,
            path.message_max_bytes,
            DELIVER_MAX_BYTES if path.piece_bytes else WHOLE,
        )
        for put in cut(outbox, room, self.too_long):
            outbox.sending()
            count, size = len(put.records), size_of(put)
            self.resent += min(max(self.highest_sent - put.first_id + 1, 0), count)
            last_id = put.first_id + count - 1
            if is_ordered and (not self._above or last_id > self._above[-1][0]):
                self._above.append((last_id, size))
                self._above_bytes += size
            path.send(put, size)
            self._context.count_read(count, size)
        for seq_id, size in self.too_long.items():
            self._link.block_at(path, seq_id, size)
            break
        self.highest_sent = max(self.highest_sent, outbox.sent_id)
        return outbox.sent_id > before
