import pytest

from qmgr_protocol.limits import QUEUE_ATTRIBUTES, QUEUE_LIMITS
from qmgr_protocol.messages import LEASE_MAX_MS


def test_limits_are_spans() -> None:
    assert all(0 <= low < high for low, high in QUEUE_LIMITS.values())


def test_queue_leases_no_longer_than_a_get_may_ask_for() -> None:
    assert QUEUE_LIMITS["lease_ms"][1] == LEASE_MAX_MS


@pytest.mark.parametrize("name", QUEUE_ATTRIBUTES)
def test_unit_of_an_attribute_is_in_its_name(name: str) -> None:
    quantity = QUEUE_ATTRIBUTES[name].quantity
    assert name.endswith("_ms") == (quantity == "ms")
    assert name.endswith("_percent") == (quantity == "percent")
    assert ("bytes" in name) == (quantity == "bytes")
    assert bool(QUEUE_ATTRIBUTES[name].choices) == (quantity == "choice")
