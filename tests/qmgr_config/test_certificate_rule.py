"""The entries for certificates in the configuration."""

import pytest
from pydantic import ValidationError

from qmgr_config.certificate_rule import CertificateRule


@pytest.mark.parametrize(
    ("match", "user"),
    [
        ("dns:*.clients.example.org", "{1}"),
        ("subject:CN=alice,O=Example", "alice"),
        ("uri:spiffe://example.org/*", "app-{1}"),
        ("email:*@example.org", "{1}"),
        ("ip:10.0.0.1", "robot"),
        ("dns:*", "anybody"),
    ],
)
def test_valid_entry_is_accepted(match: str, user: str) -> None:
    assert CertificateRule(match=match, user=user).match == match


@pytest.mark.parametrize(
    ("match", "user", "why"),
    [
        ("clients.example.org", "app", '"dns:"'),
        ("dns:", "app", '"dns:"'),
        ("dns:*.*", "app", "at most one"),
        ("DNS:a", "app", '"dns:"'),
        ("dns:a\n", "app", '"dns:"'),
        ("dns:" + "a" * 1000, "app", '"dns:"'),
        ("dns:a", "{1}", "match has no"),
        ("dns:*", "{1}{1}", "at most one"),
        ("dns:*", "{2}", "not a user"),
        ("dns:*", "", "not a user"),
        ("dns:*", "a b", "not a user"),
        ("dns:*", "a" * 65, "not a user"),
    ],
)
def test_invalid_entry_is_refused_with_the_reason(match: str, user: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        CertificateRule(match=match, user=user)
