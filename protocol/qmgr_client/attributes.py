"""The attributes of queues, subscriptions and topics: keyword arguments of ``client.admin``.

    client.admin.queue_create("ORDERS", depth_max=10_000, lease_ms=timedelta(minutes=2))

PROTOCOL.md, section 11, lists ranges and defaults. None selects the default. A duration is a number
of milliseconds or a timedelta. A test checks these classes against qmgr_protocol.limits.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from qmgr_client.duration import Duration, in_ms_or_none
from qmgr_protocol.errors import ErrorCode, RequestError

ExpiryAction: TypeAlias = Literal["discard", "dead-letter"]
Accounting: TypeAlias = Literal["off", "on"]
QueueOverflow: TypeAlias = Literal["refuse", "discard-oldest", "dead-letter-oldest"]
SubscriptionOverflow: TypeAlias = Literal[
    "discard-newest", "discard-oldest", "dead-letter-oldest", "suspend"
]
Republish: TypeAlias = Literal["manual", "healthy", "schedule"]


class CommonAttributes(TypedDict, total=False):
    """The attributes that queues and subscriptions have in common."""

    depth_max: int | None  # maximum number of messages
    bytes_max: int | None
    lease_ms: Duration | None
    exclusive: bool | None
    priority_default: int | None
    expiry_max_ms: Duration | None
    expiry_action: ExpiryAction | None
    group_retention_ms: Duration | None
    group_incomplete_ms: Duration | None
    delivery_limit: int | None
    retry_initial_ms: Duration | None
    retry_factor: float | None
    retry_max_ms: Duration | None
    retry_jitter_percent: int | None
    breaker_percent: int | None
    breaker_window_ms: Duration | None
    breaker_messages_min: int | None
    breaker_pause_ms: Duration | None
    accounting: Accounting | None
    unused_expiry_ms: Duration | None


class TemplateAttributes(CommonAttributes, total=False):
    """The attributes that a template sets for local queues."""

    message_max_bytes: int | None
    transfer_in: bool | None
    overflow: QueueOverflow | None
    dedup_retention_ms: Duration | None
    backout_threshold: int | None
    backout_queue: str | None


class QueueAttributes(TemplateAttributes, total=False):
    """The attributes of a queue. A remote queue has only ``put_inhibit``."""

    put_inhibit: bool | None
    get_inhibit: bool | None
    # Makes the queue an alias. Its other attributes are put_inhibit and get_inhibit.
    alias_of: str


class SubscriptionAttributes(CommonAttributes, total=False):
    """The attributes of a subscription."""

    overflow: SubscriptionOverflow | None
    redelivery_limit: int | None
    get_inhibit: bool | None


class TopicAttributes(TypedDict, total=False):
    """The attributes of a topic and of all topics below that topic."""

    redelivery_limit: int | None
    republish: Republish | None
    republish_interval_ms: Duration | None
    put_inhibit: bool | None


def encoded(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns *attributes* in the form of a request, with durations in milliseconds.

    Raises:
        RequestError: VALUE_INVALID if *attributes* is not a mapping or a duration is invalid.
    """
    if not isinstance(attributes, Mapping):
        text = (
            f"attributes must be a mapping such as {{'depth_max': 1000}}, "
            f"not {type(attributes).__name__}"
        )
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return {
        name: in_ms_or_none(name, value) if str(name).endswith("_ms") else value
        for name, value in attributes.items()
    }


def without_none(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the result of :func:`encoded` without None values, for requests that create."""
    return {name: value for name, value in encoded(attributes).items() if value is not None}
