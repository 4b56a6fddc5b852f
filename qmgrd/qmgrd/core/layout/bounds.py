"""The attributes in force for a queue, from its definition, a template or a default."""

from dataclasses import dataclass
from typing import Literal

Overflow = Literal["refuse", "discard-oldest", "dead-letter-oldest", "discard-newest", "suspend"]
ExpiryAction = Literal["discard", "dead-letter"]
Accounting = Literal["off", "on"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The attributes in force for a queue. Times are in milliseconds; 0 means none or never."""

    depth_max: int
    bytes_max: int
    lease_ms: int
    leases_max: int
    message_max_bytes: int = 0  # message size limit, in addition to limits.message_max_bytes
    put_inhibit: bool = False  # whether puts are refused
    get_inhibit: bool = False  # whether nothing is delivered
    exclusive: bool = False  # whether only one connection at a time may consume
    transfer_in: bool = True  # whether messages may arrive over links
    priority_default: int = 4  # priority of messages that use the queue's priority
    expiry_max_ms: int = 0  # longest expiry of a message
    expiry_action: ExpiryAction = "discard"  # action for expired messages
    overflow: Overflow = "refuse"  # action of a put to a full queue
    dedup_retention_ms: int = 0  # time for which UIDs of consumed messages are remembered
    group_retention_ms: int = 30 * 24 * 3_600_000  # time for which an empty group is remembered
    group_incomplete_ms: int = 0  # time for which an incomplete group waits for its members
    backout_threshold: int = 0  # failures after which a message is backed out
    delivery_limit: int = 20  # returns without a failure after which a message is backed out
    backout_queue: str = ""  # name of the backout queue; empty for the dead-letter queue
    retry_initial_ms: int = 0  # wait after the first failure
    retry_factor: float = 2.0  # factor by which each further wait is longer
    retry_max_ms: int = 3_600_000  # longest wait
    retry_jitter_percent: int = 10  # largest percentage of the wait that is subtracted at random
    accounting: Accounting = "off"  # whether the history of messages is kept (journal.py)
    breaker_percent: int = 0  # percentage of failures at which delivery pauses
    breaker_window_ms: int = 10_000  # time for which failures count
    breaker_messages_min: int = 20  # messages in the window before the percentage counts
    breaker_pause_ms: int = 5_000  # pause before one message is delivered as a probe
    unused_expiry_ms: int = 0  # time after which a queue without consumers is deleted
    redelivery_limit: int = -1  # limit of a subscription; -1 for the limit of its topic
