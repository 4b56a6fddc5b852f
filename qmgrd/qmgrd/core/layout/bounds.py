"""What a queue is held to: its attributes as they are in force, whoever set them."""

from dataclasses import dataclass
from typing import Literal

Overflow = Literal["refuse", "discard-oldest", "dead-letter-oldest", "discard-newest", "suspend"]
ExpiryAction = Literal["discard", "dead-letter"]
Accounting = Literal["off", "on"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The attributes of a queue in force. Times are milliseconds; 0 stands for none, or never."""

    depth_max: int
    bytes_max: int
    lease_ms: int
    leases_max: int
    message_max_bytes: int = 0  # beside limits.message_max_bytes
    put_inhibit: bool = False  # held to by who puts here, and who hands out
    get_inhibit: bool = False
    exclusive: bool = False  # one connection at a time gets
    transfer_in: bool = True  # whether links of others may bring messages
    priority_default: int = 4  # of messages that leave it to the queue
    expiry_max_ms: int = 0  # no message lives longer
    expiry_action: ExpiryAction = "discard"  # what becomes of a message whose time is over
    overflow: Overflow = "refuse"  # what a put does that meets a full queue
    dedup_retention_ms: int = 0  # how long the UIDs of consumed messages are remembered
    group_retention_ms: int = 30 * 24 * 3_600_000  # how long a group is known that has nothing here
    group_incomplete_ms: int = 0  # how long an incomplete group waits for more of it
    backout_threshold: int = 0  # failures after which a message leaves for backout_queue
    delivery_limit: int = 20  # the same of deliveries that came back and had not failed
    backout_queue: str = ""  # empty: the dead-letter queue
    retry_initial_ms: int = 0  # the wait after the first failure
    retry_factor: float = 2.0  # how much longer each further one is
    retry_max_ms: int = 3_600_000
    retry_jitter_percent: int = 10  # of the wait, at most, taken off by chance
    accounting: Accounting = "off"  # whether what happens to its messages is kept (journal.py)
    breaker_percent: int = 0  # share of failures at which delivery pauses
    breaker_window_ms: int = 10_000
    breaker_messages_min: int = 20  # in the window, before the share means anything
    breaker_pause_ms: int = 5_000  # until one message is tried
    unused_expiry_ms: int = 0  # how long it lasts where nobody gets or consumes
    redelivery_limit: int = -1  # of a subscription alone; -1: as its topic has it
