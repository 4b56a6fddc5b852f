"""The login of a link."""

from pathlib import Path

import pytest

from qmgr_config.link import LinkConfig, LoginConfig
from qmgr_protocol import messages as m
from qmgr_protocol.scram import ScramFailed, ServerLogin, make_verifier
from qmgr_protocol.token_login import TokenLogin
from qmgrd.net.link_login import ITERATIONS_MAX, link_login, login_of

ADDRESS = "tls:nyc.example.org:7471"
VERIFIER = make_verifier("secret", bytes(16))


def config(directory: Path, password: bytes) -> LoginConfig:
    file = directory / "password"
    file.write_bytes(password)
    file.chmod(0o600)
    return LoginConfig(manager="NYC", user="QM1", password_file=file)


def links(directory: Path, *, require_login: bool = False) -> LinkConfig:
    return LinkConfig(logins=(config(directory, b"secret"),), require_login=require_login)


def test_link_without_a_login_does_not_log_in(tmp_path: Path) -> None:
    assert link_login(login_of(links(tmp_path), "FRA"), ADDRESS) is None


def test_link_without_a_login_does_not_dial_if_a_login_is_required(tmp_path: Path) -> None:
    found = links(tmp_path, require_login=True)
    with pytest.raises(ValueError, match=r"no login for FRA is configured: add it to \[\[link"):
        login_of(found, "FRA")
    assert link_login(login_of(found, "NYC"), ADDRESS) is not None


def test_entry_without_a_login_is_not_enough_if_a_login_is_required() -> None:
    pinned = LoginConfig(manager="NYC", fingerprint="ab" * 32)
    with pytest.raises(ValueError, match="no login for NYC is configured"):
        login_of(LinkConfig(logins=(pinned,), require_login=True), "NYC")
    shown = LoginConfig(manager="NYC", use_certificate=True)
    assert login_of(LinkConfig(logins=(shown,), require_login=True), "NYC") == shown


@pytest.mark.parametrize("password", [b"secret", b"secret\n"])
def test_login_proves_the_password_of_the_file(tmp_path: Path, password: bytes) -> None:
    login = link_login(config(tmp_path, password), ADDRESS)
    assert login is not None
    server = ServerLogin(lambda user: VERIFIER, "nonceOfTheServer")
    login.check(server.finish(login.answer(server.challenge(login.first()))))
    assert server.user == "QM1"


def test_each_connection_has_its_own_nonce_and_reads_the_file(tmp_path: Path) -> None:
    found = config(tmp_path, b"old")
    firsts = {
        one.first()
        for one in (link_login(found, ADDRESS), link_login(found, ADDRESS))
        if one is not None
    }
    assert len(firsts) == 2
    config(tmp_path, b"secret")
    test_login_proves_the_password_of_the_file(tmp_path, b"secret")


@pytest.mark.parametrize("password", [b"", b"\n", b"\xff", b"a\x00b"])
def test_file_without_a_valid_password_is_an_error_that_does_not_show_it(
    tmp_path: Path, password: bytes
) -> None:
    found = config(tmp_path, password)
    with pytest.raises(ValueError, match=r"cannot .*password") as caught:
        link_login(found, ADDRESS)
    assert str(found.password_file) in str(caught.value)
    assert "a\x00b" not in str(caught.value)


def test_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the password file .*missing: No such file"):
        link_login(
            LoginConfig(manager="NYC", user="QM1", password_file=tmp_path / "missing"), ADDRESS
        )


def token_config(directory: Path, token: bytes) -> LoginConfig:
    file = directory / "token"
    file.write_bytes(token)
    file.chmod(0o600)
    return LoginConfig(manager="NYC", token_file=file)


def test_token_is_that_of_the_file_at_each_connection(tmp_path: Path) -> None:
    for token in (b"a.b.c", b"d.e.f\n"):
        found = token_config(tmp_path, token)
        login = link_login(found, ADDRESS)
        assert isinstance(login, TokenLogin)
        assert login.first() == token.strip()
        assert login_of(LinkConfig(logins=(found,), require_login=True), "NYC") == found


@pytest.mark.parametrize(
    ("address", "is_secret"),
    [
        (ADDRESS, True),
        ("unix:/run/qmgrd.sock", True),
        ("127.0.0.1:7470", True),
        ("[::1]:7470", True),
        ("localhost:7470", True),
        ("10.0.0.1:7470", False),
        ("nyc.example.org:7470", False),
        ("localhost.example.org:7470", False),
    ],
)
def test_token_is_not_sent_without_tls(tmp_path: Path, address: str, is_secret: bool) -> None:
    found = token_config(tmp_path, b"a.b.c")
    if is_secret:
        assert link_login(found, address) is not None
    else:
        with pytest.raises(ValueError, match="in plain text"):
            link_login(found, address)


@pytest.mark.parametrize(
    "token", [b"", b"secret", b"a.b", b"\xff.b.c", b"a.b.c d.e.f", b"a" * 20_000]
)
def test_file_without_a_token_is_an_error_that_does_not_show_it(
    tmp_path: Path, token: bytes
) -> None:
    with pytest.raises(ValueError, match=r"token file .*token does not contain") as caught:
        link_login(token_config(tmp_path, token), ADDRESS)
    assert "secret" not in str(caught.value)


def test_too_long_token_is_an_error_that_names_the_limit(tmp_path: Path) -> None:
    token = b"a.b." + b"c" * m.AUTH_DATA_MAX
    with pytest.raises(ValueError, match=r"2820 bytes; the limit is 2816"):
        link_login(token_config(tmp_path, token), ADDRESS)


def test_missing_token_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    found = LoginConfig(manager="NYC", token_file=tmp_path / "missing")
    with pytest.raises(ValueError, match=r"cannot read the token file .*missing: No such file"):
        link_login(found, ADDRESS)


def test_entry_has_one_way_to_log_in(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="token_file, or use_certificate"):
        LoginConfig(manager="NYC", token_file=tmp_path, use_certificate=True)
    with pytest.raises(ValueError, match="token_file, or use_certificate"):
        LoginConfig(manager="NYC", token_file=tmp_path, user="A", password_file=tmp_path)


def test_link_computes_only_few_iterations(tmp_path: Path) -> None:
    """The daemon serves nobody else meanwhile, and the peer chooses the number."""
    for iterations, is_computed in ((ITERATIONS_MAX, True), (ITERATIONS_MAX + 1, False)):
        login = link_login(config(tmp_path, b"secret"), ADDRESS)
        assert login is not None
        verifier = make_verifier("secret", bytes(16), iterations)
        challenge = ServerLogin(lambda user: verifier, "nonceOfTheServer").challenge(login.first())  # noqa: B023
        if is_computed:
            assert login.answer(challenge)
        else:
            with pytest.raises(ScramFailed, match="50001 iterations are too many"):
                login.answer(challenge)
