"""The TLS options of a client."""

import pytest

from qmgr_client.address import parse
from qmgr_client.tls import tls_options
from qmgr_protocol.tls import TlsOptions

TLS, PLAIN = parse("tls:nyc.example.org:7471"), parse("nyc.example.org:7470")
ENVIRONMENT = {
    "QMGR_CA_FILE": "/ca",
    "QMGR_CERTIFICATE_FILE": "/c",
    "QMGR_KEY_FILE": "/k",
    "QMGR_SERVER_NAME": "name",
    "QMGR_FINGERPRINT": "AB" * 32,
}


def test_arguments_come_before_the_environment() -> None:
    given = TlsOptions(ca_file="/other")
    assert tls_options(TLS, given, ENVIRONMENT) == given
    assert tls_options(TLS, None, ENVIRONMENT) == TlsOptions("/ca", "/c", "/k", "name", "ab" * 32)
    assert tls_options(TLS, None, {}) == TlsOptions()


def test_environment_does_not_matter_for_an_address_without_tls() -> None:
    assert tls_options(PLAIN, None, ENVIRONMENT) is None
    with pytest.raises(ValueError, match=r"write tls:nyc\.example\.org:7470"):
        tls_options(PLAIN, TlsOptions(), {})
