"""The options of TLS."""

from typing import Any

import pytest
from pydantic import ValidationError

from qmgr_config.model import Config
from qmgr_config.tls import TlsConfig, checked_fingerprint

PAIR = {"certificate": "/c", "key": "/k"}


def test_fingerprint_may_have_colons_and_capital_letters() -> None:
    assert checked_fingerprint("SHA256:" + "AB:" * 31 + "AB") == "ab" * 32
    assert checked_fingerprint("") == ""
    with pytest.raises(ValueError, match="is not the SHA-256"):
        checked_fingerprint("ab" * 31)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"certificate": "/c"}, "tls.certificate is set, and tls.key is not"),
        ({"key": "/k"}, "tls.key is set, and tls.certificate is not"),
        ({"ca": "ca.crt"}, "is not an absolute path"),
        (PAIR | {"client_certificates": "require"}, "tls.client_ca must name the CAs"),
        (PAIR | {"minimum": "1.1"}, "'1.2' or '1.3'"),
    ],
)
def test_contradiction_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        TlsConfig.model_validate(fields)


def test_listener_with_tls_needs_a_certificate() -> None:
    listen = {"tls": ["0.0.0.0:7471"]}
    with pytest.raises(ValidationError, match=r"listen\.tls: TLS needs a certificate"):
        Config.model_validate({"listen": listen})
    assert Config.model_validate({"listen": listen, "tls": PAIR}).listen.tls == ("0.0.0.0:7471",)
