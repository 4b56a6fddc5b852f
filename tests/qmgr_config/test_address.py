import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7470", Address("127.0.0.1", 7470)),
        ("[::1]:0", Address("::1", 0)),
        ("broker-1.example:65535", Address("broker-1.example", 65535)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("7470", '"7470" is not host:port'),
        (":7470", "is not host:port"),
        ("host:", "is not host:port"),
        ("::1:7470", "is not host:port"),
        ("a b:1", "is not host:port"),
        ("host:65536", "has the port 65536; the maximum is 65535"),
        ("[1::2::3]:1", "1::2::3"),
    ],
)
def test_invalid_address_is_refused_with_the_reason(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.5:1", False),
        ("localhost.example:1", False),
    ],
)
def test_only_this_machine_reaches_a_loopback_address(text: str, is_loopback: bool) -> None:
    assert parse_address(text).is_loopback is is_loopback


@given(st.ip_addresses(), st.integers(0, 65_535))
def test_written_values_are_read_back(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert parse_address(str(address)) == address
