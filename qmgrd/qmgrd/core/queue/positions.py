"""The positions of a queue, up to which the messages of each priority are delivered.

Every message before the position of its priority is leased or removed. A delivery moves a position
forward, and a returned message moves it back. A scan skips leased messages. Therefore, one seek
finds the next message, regardless of the depth of the queue.
"""

from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.core.queue.group.groups import NEVER

PRIORITIES = range(records.PRIORITY_MAX + 1)


class Positions:
    """The positions and key prefixes of a queue. Each list has one item per priority."""

    __slots__ = (
        "correlation_prefix",
        "grouped",
        "grouped_prefixes",
        "plain_grouped",
        "plain_prefixes",
        "prefixes",
        "ready",
        "ready_end",
        "sent_id",
        "stopped",
    )

    def __init__(self, queue_id: int, *, is_transmission: bool) -> None:
        # A transmission queue is ordered by id, other queues by priority and arrival.
        self.prefixes = [
            keys.entry_prefix(queue_id, keys.PRIORITY_TOP if is_transmission else priority)
            for priority in PRIORITIES
        ]
        self.grouped_prefixes = [
            keys.entry_prefix(queue_id, priority, keys.LANE_GROUPED) for priority in PRIORITIES
        ]
        self.ready_end = keys.after(keys.lane(queue_id, keys.LANE_READY))
        self.correlation_prefix = keys.of_queue(keys.SPACE_CORRELATION, queue_id)
        self.ready = [0] * len(PRIORITIES)  # the positions in the ready lane
        self.grouped = [0] * len(PRIORITIES)  # the positions in the grouped lane, in physical order
        # Per priority, the lowest arrival number before the position that was skipped because its
        # group is stopped.
        self.stopped = [NEVER] * len(PRIORITIES)
        # The id up to which the messages of a transmission queue are in transit and must stay.
        self.sent_id = 0
        # Key prefixes by the four bytes from origin_length to flags of a record without a UID.
        self.plain_prefixes: dict[bytes, bytes] = {}
        self.plain_grouped: dict[bytes, bytes] = {}

    def set_default_priority(self, default: int) -> None:
        """Sets the priority of messages that use the queue's priority."""
        self.plain_prefixes = {
            bytes([0, records.VERSION, priority, flags]): self.prefixes[
                default if flags else priority
            ]
            for priority in PRIORITIES
            for flags in (0, records.FLAG_PRIORITY_OF_QUEUE)
        }
        self.plain_grouped = {
            four: self.grouped_prefixes[keys.PRIORITY_TOP - prefix[keys.RANK_AT]]
            for four, prefix in self.plain_prefixes.items()
        }

    def start_over(self) -> None:
        """Resets the positions of groups, so all members are examined again."""
        self.grouped = [0] * len(PRIORITIES)
        self.stopped = [NEVER] * len(PRIORITIES)
