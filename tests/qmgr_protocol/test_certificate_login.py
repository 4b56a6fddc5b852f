"""The login by certificate."""

import pytest

from qmgr_protocol.certificate_login import EXTERNAL, CertificateLogin


def test_login_has_nothing_to_prove_and_accepts_each_welcome() -> None:
    login = CertificateLogin()
    login.bind(b"hash")
    assert (login.method, login.first()) == (EXTERNAL, b"")
    login.check(b"")


def test_challenge_is_refused() -> None:
    with pytest.raises(ValueError, match="asks for a password"):
        CertificateLogin().answer(b"r=1")
