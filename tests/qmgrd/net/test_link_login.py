"""The login of a link."""

from pathlib import Path

import pytest

from qmgr_config.link import LinkConfig, LoginConfig
from qmgr_protocol.scram import ServerLogin, make_verifier
from qmgrd.net.link_login import link_login, login_of

VERIFIER = make_verifier("secret", bytes(16))


def config(directory: Path, password: bytes) -> LoginConfig:
    file = directory / "password"
    file.write_bytes(password)
    return LoginConfig(manager="NYC", user="QM1", password_file=file)


def links(directory: Path, *, require_login: bool = False) -> LinkConfig:
    return LinkConfig(logins=(config(directory, b"secret"),), require_login=require_login)


def test_link_without_a_login_does_not_log_in(tmp_path: Path) -> None:
    assert link_login(login_of(links(tmp_path), "FRA")) is None


def test_link_without_a_login_does_not_dial_if_a_login_is_required(tmp_path: Path) -> None:
    found = links(tmp_path, require_login=True)
    with pytest.raises(ValueError, match=r"no login for FRA is configured: add it to \[\[link"):
        login_of(found, "FRA")
    assert link_login(login_of(found, "NYC")) is not None


def test_entry_without_a_login_is_not_enough_if_a_login_is_required() -> None:
    pinned = LoginConfig(manager="NYC", fingerprint="ab" * 32)
    with pytest.raises(ValueError, match="no login for NYC is configured"):
        login_of(LinkConfig(logins=(pinned,), require_login=True), "NYC")
    shown = LoginConfig(manager="NYC", use_certificate=True)
    assert login_of(LinkConfig(logins=(shown,), require_login=True), "NYC") == shown


@pytest.mark.parametrize("password", [b"secret", b"secret\n"])
def test_login_proves_the_password_of_the_file(tmp_path: Path, password: bytes) -> None:
    login = link_login(config(tmp_path, password))
    assert login is not None
    server = ServerLogin(lambda user: VERIFIER, "nonceOfTheServer")
    login.check(server.finish(login.answer(server.challenge(login.first()))))
    assert server.user == "QM1"


def test_each_connection_has_its_own_nonce_and_reads_the_file(tmp_path: Path) -> None:
    found = config(tmp_path, b"old")
    firsts = {one.first() for one in (link_login(found), link_login(found)) if one is not None}
    assert len(firsts) == 2
    config(tmp_path, b"secret")
    test_login_proves_the_password_of_the_file(tmp_path, b"secret")


@pytest.mark.parametrize("password", [b"", b"\n", b"\xff", b"a\x00b"])
def test_file_without_a_valid_password_is_an_error_that_does_not_show_it(
    tmp_path: Path, password: bytes
) -> None:
    found = config(tmp_path, password)
    with pytest.raises(ValueError, match=r"cannot .*password") as caught:
        link_login(found)
    assert str(found.password_file) in str(caught.value)
    assert "a\x00b" not in str(caught.value)


def test_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the password file .*missing: No such file"):
        link_login(LoginConfig(manager="NYC", user="QM1", password_file=tmp_path / "missing"))
