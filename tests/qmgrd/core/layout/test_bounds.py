"""Tests of the default bounds of a queue."""

from qmgrd.core.catalogue.attributes import queue_attributes
from qmgrd.core.layout.bounds import Bounds


def test_default_bounds_are_those_that_a_queue_may_set() -> None:
    bounds = Bounds(depth_max=1, bytes_max=1024, lease_ms=100, leases_max=1)
    others = {"leases_max", "redelivery_limit"}  # Only subscriptions have these attributes.
    given = {name: getattr(bounds, name) for name in Bounds.__slots__ if name not in others}
    assert queue_attributes("Q", given, "local") == given


def test_default_bounds_leave_messages_alone() -> None:
    """New attributes apply only if they are set, so existing queues keep their behaviour."""
    bounds = Bounds(depth_max=1, bytes_max=1024, lease_ms=100, leases_max=1)
    off = (
        "message_max_bytes",
        "expiry_max_ms",
        "dedup_retention_ms",
        "backout_threshold",
        "retry_initial_ms",
        "breaker_percent",
        "unused_expiry_ms",
    )
    assert not any(getattr(bounds, name) for name in off)
    assert bounds.overflow == "refuse"
    # The only exception is the delivery limit. Without it, a message that repeatedly kills its
    # consumers would block all others.
    assert bounds.delivery_limit == 20
    assert not any((bounds.exclusive, bounds.put_inhibit, bounds.get_inhibit))
