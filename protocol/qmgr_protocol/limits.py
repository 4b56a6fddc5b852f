"""Limits of names and attributes. The lowest and the highest value of each limit are both valid."""

from dataclasses import dataclass
from typing import Literal

from qmgr_protocol.messages import LEASE_MAX_MS

CLIENT_NAME_MAX = 255  # maximum number of characters; lists show these names to operators
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

Quantity = Literal[
    "messages", "bytes", "ms", "count", "percent", "factor", "flag", "choice", "queue"
]


@dataclass(frozen=True, slots=True)
class Attribute:
    """The valid values of an attribute: numbers from low to high, or one of the choices.

    A factor may be a fraction. The value of a "queue" is a name, QUEUE@MANAGER, or empty.
    """

    quantity: Quantity
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """True if the values are numbers."""
        return self.high > 0


# Attributes of a local queue and a template. The low and high values also limit the configured
# defaults.
QUEUE_ATTRIBUTES = {
    "depth_max": Attribute("messages", 1, 10**12),
    "bytes_max": Attribute("bytes", 2**10, 2**44),  # total size of the records, in bytes
    "lease_ms": Attribute("ms", 100, LEASE_MAX_MS),
    "message_max_bytes": Attribute("bytes", 0, 2**30),
    "exclusive": Attribute("flag"),
    "transfer_in": Attribute("flag"),
    "priority_default": Attribute("count", 0, 9),
    "expiry_max_ms": Attribute("ms", 0, 3650 * _DAY_MS),
    "expiry_action": Attribute("choice", choices=("discard", "dead-letter")),
    "overflow": Attribute("choice", choices=("refuse", "discard-oldest", "dead-letter-oldest")),
    "dedup_retention_ms": Attribute("ms", 0, 3650 * _DAY_MS),
    "group_retention_ms": Attribute("ms", 1_000, 3650 * _DAY_MS),
    "group_incomplete_ms": Attribute("ms", 0, 3650 * _DAY_MS),
    "backout_threshold": Attribute("count", 0, 65_535),
    "delivery_limit": Attribute("count", 0, 65_535),
    "backout_queue": Attribute("queue"),
    "retry_initial_ms": Attribute("ms", 0, 30 * _DAY_MS),
    "retry_factor": Attribute("factor", 1, 100),
    "retry_max_ms": Attribute("ms", 0, 30 * _DAY_MS),
    "retry_jitter_percent": Attribute("percent", 0, 100),
    "breaker_percent": Attribute("percent", 0, 100),
    "breaker_window_ms": Attribute("ms", 100, _HOUR_MS),
    "breaker_messages_min": Attribute("messages", 1, 100_000),
    "breaker_pause_ms": Attribute("ms", 100, _HOUR_MS),
    "accounting": Attribute("choice", choices=("off", "on")),
    "unused_expiry_ms": Attribute("ms", 0, 3650 * _DAY_MS),
}
# Attributes of a subscription: the attributes of a queue, except for links, backout queues and
# refused puts.
SUBSCRIPTION_ATTRIBUTES = {
    name: found
    for name, found in QUEUE_ATTRIBUTES.items()
    if name
    not in (
        "transfer_in",
        "dedup_retention_ms",
        "backout_threshold",
        "backout_queue",
        "message_max_bytes",
    )
} | {
    "overflow": Attribute(
        "choice", choices=("discard-newest", "discard-oldest", "dead-letter-oldest", "suspend")
    ),
    "redelivery_limit": Attribute("count", -1, 65_534),
}
REPUBLISH_WAYS = ("manual", "healthy", "schedule")
# Attributes of a topic. Topics below it inherit each attribute that they do not define.
TOPIC_ATTRIBUTES = {
    "redelivery_limit": Attribute("count", 0, 65_534),
    "republish": Attribute("choice", choices=REPUBLISH_WAYS),
    "republish_interval_ms": Attribute("ms", 1_000, 365 * _DAY_MS),
    "put_inhibit": Attribute("flag"),
}
# Limits of a user. 0 means unlimited. The same values limit the configured defaults.
USER_LIMITS = {
    "connections_max": Attribute("count", 0, 100_000),
    "streams_max": Attribute("count", 0, 10_000_000),  # open producers and links
    "producers_max": Attribute("count", 0, 10_000_000),  # remembered producers
    "consumers_max": Attribute("count", 0, 10_000_000),  # consumers and waiting gets
    "queues_max": Attribute("count", 0, 1_000_000),  # queues that the user created
    "subscriptions_max": Attribute("count", 0, 1_000_000),  # the same for subscriptions
    "stored_bytes_max": Attribute("bytes", 0, 2**44),  # on these queues and subscriptions
    "puts_per_s_max": Attribute("count", 0, 10**9),  # messages in a second
    "put_bytes_per_s_max": Attribute("bytes", 0, 2**40),  # bytes of puts in a second
    "unread_bytes_max": Attribute("bytes", 0, 2**40),  # sent to all connections, and not read
}
QUEUE_LIMITS = {
    name: (found.low, found.high) for name, found in QUEUE_ATTRIBUTES.items() if found.is_number
}
ADDRESSES_MAX = 16  # addresses of a link
ADDRESS_MAX = 300  # maximum characters of an address of a link
CONNECTIONS_MAX = 16  # connections of a link
ROUTES_MAX = 100  # queue managers that are reached through a link
ANY_ROUTE = "*"  # the name that routes to all queue managers without another route
PATTERN_MAX = 64  # maximum number of characters of a template's pattern


def is_link_address(value: object) -> bool:
    """Returns whether *value* is a valid address of a link.

    It is host:port, tls:host:port or unix:/path.
    """
    if type(value) is not str or len(value) > ADDRESS_MAX:
        return False
    if value.startswith("unix:/"):
        return True
    host, _, port = value.removeprefix("tls:").rpartition(":")
    return bool(host and port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535)
