"""The other end of a connection, before its login."""

from qmgrd.core.access.origin import Origin, Tls


def test_origin_without_tls_is_not_encrypted() -> None:
    assert Origin("10.0.0.1").tls is None


def test_only_a_verified_certificate_counts() -> None:
    assert not Tls(b"hash of our certificate").has_certificate
    assert Tls(fingerprint="ab" * 32).has_certificate
