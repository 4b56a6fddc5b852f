import pytest

from qmgr_protocol.limits import ADDRESS_MAX, QUEUE_ATTRIBUTES, QUEUE_LIMITS, is_link_address
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


@pytest.mark.parametrize(
    ("address", "is_valid"),
    [
        ("h:1", True),
        ("[::1]:65535", True),
        ("unix:/run/qmgrd.sock", True),
        ("h", False),
        (":1", False),
        ("h:0", False),
        ("h:65536", False),
        ("h:\u0661", False),
        ("unix:/" + ADDRESS_MAX * "x", False),
        (1, False),
    ],
)
def test_link_address_is_a_host_and_a_port_or_a_path(address: object, is_valid: bool) -> None:
    assert is_link_address(address) is is_valid
