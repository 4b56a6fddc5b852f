"""The limits of a queue: its attributes in force, from its definition, a template or a default."""

from dataclasses import dataclass
from typing import Literal

Overflow = Literal["refuse", "discard-oldest", "dead-letter-oldest", "discard-newest", "suspend"]
ExpiryAction = Literal["discard", "dead-letter"]
Accounting = Literal["off", "on"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The attributes of a queue in force. Times are milliseconds; 0 is none, or never."""

    depth_max: int
    bytes_max: int
    lease_ms: int
    leases_max: int
    message_max_bytes: int = 0  # in addition to limits.message_max_bytes
    put_inhibit: bool = False  # checked by puts; get_inhibit by deliveries
    get_inhibit: bool = False
    exclusive: bool = False  # one connection at a time may consume
    transfer_in: bool = True  # whether messages may arrive over links
    priority_default: int = 4  # of messages that leave it to the queue
    expiry_max_ms: int = 0  # the longest expiry of its messages
    expiry_action: ExpiryAction = "discard"  # what happens to expired messages
    overflow: Overflow = "refuse"  # what a put does if the queue is full
    dedup_retention_ms: int = 0  # how long the UIDs of consumed messages are remembered
    group_retention_ms: int = 30 * 24 * 3_600_000  # how long an empty group is remembered
    group_incomplete_ms: int = 0  # how long an incomplete group waits for its members
    backout_threshold: int = 0  # failures after which a message leaves for backout_queue
    delivery_limit: int = 20  # the same for deliveries that returned without a failure
    backout_queue: str = ""  # empty: the dead-letter queue
    retry_initial_ms: int = 0  # the wait after the first failure
    retry_factor: float = 2.0  # by which each further wait is longer
    retry_max_ms: int = 3_600_000
    retry_jitter_percent: int = 10  # of the wait, at most, subtracted at random
    accounting: Accounting = "off"  # whether the history of its messages is kept (journal.py)
    breaker_percent: int = 0  # share of failures at which delivery pauses
    breaker_window_ms: int = 10_000
    breaker_messages_min: int = 20  # in the window, before the share counts
    breaker_pause_ms: int = 5_000  # until one message is handed out to probe
    unused_expiry_ms: int = 0  # how long it exists without consumers
    redelivery_limit: int = -1  # of a subscription only; -1: that of its topic
