"""The other end of a connection, before its login."""

import pytest

from qmgrd.core.access.origin import Origin, Tls, network_of


def test_origin_without_tls_is_not_encrypted() -> None:
    assert Origin("10.0.0.1").tls is None


def test_only_a_verified_certificate_counts() -> None:
    assert not Tls(b"hash of our certificate").has_certificate
    assert Tls(fingerprint="ab" * 32).has_certificate


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:7:1:2:3:4", "2001:db8:0:7::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix", "unix"),
        ("no:address", "no:address"),
    ],
)
def test_network_has_the_addresses_from_which_a_host_can_choose(address: str, network: str) -> None:
    assert network_of(address) == network
