"""The users of certificates. A name never passes for another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.certificate_rule import CertificateRule
from qmgrd.core.access.certificate import Certificates
from qmgrd.core.access.origin import Tls


def user_of(match: str, *names: str, user: str = "{1}", subject: str = "") -> str:
    found = Certificates([CertificateRule(match=match, user=user)])
    return found.user_of(Tls(b"hash", subject, names, "ab" * 32))


@pytest.mark.parametrize(
    ("match", "name", "user"),
    [
        ("dns:*.clients.example.org", "dns:billing.clients.example.org", "billing"),
        ("dns:*.clients.example.org", "dns:a.b.clients.example.org", ""),
        ("dns:*.clients.example.org", "dns:.clients.example.org", ""),
        ("dns:*.clients.example.org", "dns:a.clients.example.org.evil.org", ""),
        ("dns:*.clients.example.org", "dns:evil.org/a.clients.example.org", ""),
        ("dns:*.clients.example.org", "dns:a.clientsXexample.org", ""),
        ("dns:*.clients.example.org", "dns:a.CLIENTS.example.org", ""),
        ("dns:*.clients.example.org", "dns:*.clients.example.org", ""),
        ("dns:*.clients.example.org", "uri:a.clients.example.org", ""),
        ("dns:*.clients.example.org", "dns:a.clients.example.org\n", ""),
        ("uri:spiffe://example.org/ns/*", "uri:spiffe://example.org/ns/app", "app"),
        ("uri:spiffe://example.org/ns/*", "uri:spiffe://example.org/ns/app/admin", ""),
        ("email:*@example.org", "email:j.doe@example.org", "j.doe"),
        ("email:*@example.org", "email:admin@evil.org@example.org", ""),
        ("ip:10.0.0.*", "ip:10.0.0.7", "7"),
    ],
)
def test_whole_name_is_compared(match: str, name: str, user: str) -> None:
    assert user_of(match, name) == user


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ("CN=alice", "alice"),
        ("CN=alice,O=Other", ""),
        ("O=Other,CN=alice", ""),
        ("CN=alice\\,O=Other", ""),
        ("CN=alice+UID=admin", ""),
        ("CN=alicé", ""),
        ("", ""),
    ],
)
def test_whole_subject_is_compared(subject: str, user: str) -> None:
    assert user_of("subject:CN=*", subject=subject) == user


def test_subject_is_not_an_alternative_name() -> None:
    assert user_of("dns:a.example.org", user="app", subject="dns:a.example.org") == ""


def test_first_entry_that_fits_decides() -> None:
    found = Certificates(
        [
            CertificateRule(match="dns:b.example.org", user="second"),
            CertificateRule(match="dns:*.example.org", user="{1}"),
        ]
    )
    both = Tls(b"", "", ("dns:a.example.org", "dns:b.example.org"), "ab" * 32)
    assert found.user_of(both) == "second"
    assert found.user_of(both._replace(names=("dns:a.example.org",))) == "a"


def test_certificate_with_several_users_has_none() -> None:
    assert user_of("dns:*.example.org", "dns:a.example.org", "dns:admin.example.org") == ""
    assert user_of("dns:*.example.org", "dns:a.example.org", "dns:a.example.org") == "a"
    assert user_of("dns:*.example.org", "dns:a.example.org", "dns:b.example.org", user="x") == "x"


def test_connection_without_a_verified_certificate_has_no_user() -> None:
    found = Certificates([CertificateRule(match="subject:CN=a", user="a")])
    assert found.user_of(None) == ""
    assert found.user_of(Tls(b"hash", "CN=a")) == ""


@given(st.text(max_size=40))
def test_text_of_the_star_is_part_of_a_user_name(text: str) -> None:
    found = user_of("subject:CN=*", subject=f"CN={text}")
    assert found in ("", text)
    assert all(x.isascii() and (x.isalnum() or x in "._-") for x in found)
