"""What a queue is held to that was told nothing."""

from qmgrd.core.catalogue.attributes import queue_attributes
from qmgrd.core.layout.bounds import Bounds


def test_bounds_of_their_own_accord_are_what_a_queue_may_be_given() -> None:
    bounds = Bounds(depth_max=1, bytes_max=1024, lease_ms=100, leases_max=1)
    others = {"leases_max", "redelivery_limit"}  # of subscriptions alone
    given = {name: getattr(bounds, name) for name in Bounds.__slots__ if name not in others}
    assert queue_attributes("Q", given, "local") == given


def test_bounds_of_their_own_accord_change_nothing_about_a_message() -> None:
    """Each new attribute has to be asked for: a queue is as it was without it."""
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
    # But for one: what its consumers die of again and again is in the way of all others.
    assert bounds.delivery_limit == 20
    assert not any((bounds.exclusive, bounds.put_inhibit, bounds.get_inhibit))
