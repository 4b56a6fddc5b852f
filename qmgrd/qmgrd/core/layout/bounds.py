"""The attributes in force for a queue, taken from its definition, a template or a default."""

from dataclasses import dataclass
from typing import Literal

Overflow = Literal["refuse", "discard-oldest", "dead-letter-oldest", "discard-newest", "suspend"]
ExpiryAction = Literal["discard", "dead-letter"]
Accounting = Literal["off", "on"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The attributes in force for a queue. Times are in milliseconds. 0 means none or never."""

    depth_max: int
    bytes_max: int
    lease_ms: int
    leases_max: int
    message_max_bytes: int = 0  # the message size limit, in addition to limits.message_max_bytes
    put_inhibit: bool = False  # whether puts are refused
    get_inhibit: bool = False  # whether deliveries are stopped
    exclusive: bool = False  # whether only one connection at a time may consume from the queue
    transfer_in: bool = True  # whether messages may arrive over links
    priority_default: int = 4  # the priority of messages that use the queue's priority
    expiry_max_ms: int = 0  # the longest expiry of a message
    expiry_action: ExpiryAction = "discard"  # the action for expired messages
    overflow: Overflow = "refuse"  # the action of a put to a full queue
    dedup_retention_ms: int = 0  # how long UIDs of consumed messages are remembered
    group_retention_ms: int = 30 * 24 * 3_600_000  # how long an empty group is remembered
    group_incomplete_ms: int = 0  # how long an incomplete group waits for its members
    backout_threshold: int = 0  # the number of failures after which a message is backed out
    # The number of returns without a failure after which a message is backed out.
    delivery_limit: int = 20
    backout_queue: str = ""  # the name of the backout queue; empty means the dead-letter queue
    retry_initial_ms: int = 0  # the wait after the first failure
    retry_factor: float = 2.0  # the factor by which each further wait is longer
    retry_max_ms: int = 3_600_000  # the longest wait
    # The largest percentage of the wait that is subtracted at random.
    retry_jitter_percent: int = 10
    accounting: Accounting = "off"  # whether the history of messages is kept (history.py)
    breaker_percent: int = 0  # the percentage of failures at which delivery pauses
    breaker_window_ms: int = 10_000  # how long a failure counts
    # The number of messages in the window before the percentage applies.
    breaker_messages_min: int = 20
    breaker_pause_ms: int = 5_000  # the pause before one message is delivered as a probe
    unused_expiry_ms: int = 0  # how long a queue may have no consumers before it is deleted
    redelivery_limit: int = -1  # the limit of a subscription; -1 means the limit of its topic
