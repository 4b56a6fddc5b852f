"""Where the entries of a queue are stored, by priority, and how far each priority is handed out.

Every message before the position of its priority is leased or gone. Taking moves a position
forward, a message that comes back lowers it, and a scan steps over what is leased. So the next
message is found by a seek, whatever the depth.
"""

from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.core.queue.group.groups import NEVER

PRIORITIES = range(records.PRIORITY_MAX + 1)


class Positions:
    """The keys of entries, and the positions, of a queue. Lists have an item for each priority."""

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
        # Ids order transmission, priority orders queues.
        self.prefixes = [
            keys.entry_prefix(queue_id, keys.PRIORITY_TOP if is_transmission else priority)
            for priority in PRIORITIES
        ]
        self.grouped_prefixes = [
            keys.entry_prefix(queue_id, priority, keys.LANE_GROUPED) for priority in PRIORITIES
        ]
        self.ready_end = keys.after(keys.lane(queue_id, keys.LANE_READY))
        self.correlation_prefix = keys.of_queue(keys.SPACE_CORRELATION, queue_id)
        self.ready = [0] * len(PRIORITIES)  # in the ready lane
        self.grouped = [0] * len(PRIORITIES)  # in the grouped lane, for physical order
        # The least arrival before these that was stepped over, as its group is stopped.
        self.stopped = [NEVER] * len(PRIORITIES)
        self.sent_id = 0  # of a transmission queue: up to here messages are under way, and stay
        # By the four bytes from origin_length to flags of a record that is not stamped yet.
        self.plain_prefixes: dict[bytes, bytes] = {}
        self.plain_grouped: dict[bytes, bytes] = {}

    def set_default_priority(self, default: int) -> None:
        """Sets the priority of messages that leave theirs to the queue."""
        self.plain_prefixes = {
            bytes([0, records.VERSION, priority, flags]): self.prefixes[
                default if flags else priority
            ]
            for priority in PRIORITIES
            for flags in (0, records.FLAG_PRIORITY_OF_QUEUE)
        }
        self.plain_grouped = {
            four: self.grouped_prefixes[keys.PRIORITY_TOP - prefix[-1]]
            for four, prefix in self.plain_prefixes.items()
        }

    def start_over(self) -> None:
        """Lowers the positions of groups, so that all their messages are looked at once more."""
        self.grouped = [0] * len(PRIORITIES)
        self.stopped = [NEVER] * len(PRIORITIES)
