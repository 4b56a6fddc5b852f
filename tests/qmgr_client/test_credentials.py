"""The user and the password of a client: where they come from, and that they do not show."""

from pathlib import Path

import pytest

from qmgr_client.address import parse
from qmgr_client.aio import connect
from qmgr_client.credentials import (
    PASSWORD,
    PASSWORD_FILE,
    TOKEN,
    TOKEN_FILE,
    USER,
    Credentials,
    TokenCredentials,
    credentials,
    token_credentials,
)
from qmgr_protocol.scram import ServerLogin, make_verifier

ENVIRONMENT = {USER: "env", PASSWORD: "env password"}


def found(**environment: str) -> Credentials | None:
    return credentials(environment=environment)


def test_arguments_come_before_the_environment() -> None:
    assert credentials("app", "secret", environment=ENVIRONMENT) == Credentials("app", "secret")
    assert credentials(environment=ENVIRONMENT) == Credentials("env", "env password")
    assert found(**{USER: "env", PASSWORD_FILE: "/p"}) == Credentials("env", "", "/p")
    assert found() is None


def test_sources_are_never_mixed() -> None:
    """A password of the environment must not reach a queue manager that an argument names."""
    with pytest.raises(ValueError, match="give user app either a password or a password file"):
        credentials("app", environment=ENVIRONMENT)
    with pytest.raises(ValueError, match="without a user in the arguments"):
        credentials("", "secret", environment=ENVIRONMENT)


def test_user_of_the_address_comes_between_the_arguments_and_the_environment() -> None:
    own = {USER: "app", PASSWORD: "secret"}
    for environment in (own, {PASSWORD: "secret"}):
        found = credentials(environment=environment, in_address="app")
        assert found == Credentials("app", "secret")
    found = credentials("", "", "/p", ENVIRONMENT, "app")
    assert found == Credentials("app", "", "/p")
    assert credentials("me", "secret", "", ENVIRONMENT, "app") == Credentials("me", "secret")
    with pytest.raises(ValueError, match="names user app, but QMGR_USER is env: give the password"):
        credentials(environment=ENVIRONMENT, in_address="app")
    with pytest.raises(ValueError, match="give user app either a password or a password file"):
        credentials(environment={}, in_address="app")


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({USER: "env"}, "give user env either a password or a password file in QMGR_USER"),
        ({PASSWORD: "x"}, "a password is given without a user in QMGR_USER"),
        ({PASSWORD_FILE: "x"}, "a password is given without a user"),
        ({USER: "env", PASSWORD: "x", PASSWORD_FILE: "y"}, "either a password or a password file"),
    ],
)
def test_incomplete_credentials_are_an_error(environment: dict[str, str], why: str) -> None:
    """A client that did not log in instead would get an error that explains less."""
    with pytest.raises(ValueError, match=why) as caught:
        found(**environment)
    assert "secret" not in str(caught.value)


def test_description_does_not_show_the_password() -> None:
    assert repr(Credentials("app", "secret")) == "Credentials(user='app', password_file='')"
    assert "secret" not in str(Credentials("app", "secret"))


@pytest.mark.parametrize("text", ["secret", "secret\n", "secret\r\n"])
def test_file_may_end_with_a_line_break(tmp_path: Path, text: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(text.encode())
    file.chmod(0o600)
    assert Credentials("app", "", str(file)).read() == "secret"


def test_file_is_read_at_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    found = Credentials("app", "", str(file))
    for password in ("old", "new"):
        file.write_text(password)
        file.chmod(0o600)
        assert found.read() == password


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "has 0 characters instead of 1 to 1024"),
        (b"\n", "has 0 characters"),
        (b"x" * 1_025, "has 1025 characters"),
        (b"\xff", "it is not UTF-8"),
        (None, "No such file"),
    ],
)
def test_file_without_a_password_is_an_error(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
        file.chmod(0o600)
    with pytest.raises(ValueError, match=why) as caught:
        Credentials("app", "", str(file)).login()
    assert str(file) in str(caught.value)


def test_login_proves_the_password_with_a_new_nonce_each_time() -> None:
    found, verifier = Credentials("app", "secret"), make_verifier("secret", bytes(16))
    firsts = set()
    for _ in range(2):
        login, server = found.login(), ServerLogin(lambda user: verifier, "nonceOfTheServer")
        first = login.first()
        login.check(server.finish(login.answer(server.challenge(first))))
        firsts.add(first)
        assert server.user == "app"
    assert len(firsts) == 2


@pytest.mark.parametrize(("user", "password"), [("app", "a\0b"), ("a\0b", "secret")])
def test_user_or_password_that_no_login_could_use_is_an_error(user: str, password: str) -> None:
    with pytest.raises(ValueError, match="cannot log in as") as caught:
        Credentials(user, password).login()
    assert password not in str(caught.value)


# -- tokens


def test_token_of_the_arguments_comes_before_the_environment() -> None:
    environment = {TOKEN: "e.n.v"}
    assert token_credentials("a.b.c", environment=environment) == TokenCredentials("a.b.c")
    assert token_credentials("", "/f", environment=environment) == TokenCredentials("", "/f")
    assert token_credentials(environment=environment) == TokenCredentials("e.n.v")
    assert token_credentials(environment={TOKEN_FILE: "/f"}) == TokenCredentials("", "/f")
    assert token_credentials(environment=ENVIRONMENT) is None


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({TOKEN: "a.b.c", TOKEN_FILE: "/f"}, "either a token or a token file in QMGR_TOKEN"),
        ({TOKEN: "a.b.c", USER: "app"}, "but also QMGR_USER"),
        ({TOKEN_FILE: "/f", PASSWORD: "x"}, "but also QMGR_USER"),
    ],
)
def test_contradictory_tokens_are_an_error(environment: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        token_credentials(environment=environment)


def test_password_of_an_argument_comes_before_a_token_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TOKEN, "not a token")
    connect("127.0.0.1:7470", user="app", password="secret")
    with pytest.raises(ValueError, match="either a user with a password, or a token"):
        connect("127.0.0.1:7470", user="app", password="secret", token="a.b.c")
    with pytest.raises(ValueError, match="a token is not sent to 10"):
        connect("10.0.0.1:7470")


def test_description_does_not_show_the_token() -> None:
    assert repr(TokenCredentials("a.b.c")) == "TokenCredentials(token_file='')"
    assert "a.b.c" not in repr(TokenCredentials("a.b.c").login())


def test_token_file_is_read_at_each_connection_and_renewal(tmp_path: Path) -> None:
    file = tmp_path / "token"
    found = TokenCredentials("", str(file))
    for token in (b"a.b.c", b"d.e.f"):
        file.write_bytes(token + b"\n")
        file.chmod(0o600)
        assert found.login().first() == token
    login = found.login()
    assert login.is_renewable
    assert not TokenCredentials("a.b.c").login().is_renewable


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "token does not contain a token"),
        (b"secret", "token does not contain a token"),
        (b"\xff.b.c", "token does not contain a token"),
        (b"a.b." + b"c" * 3_000, "3004 bytes; the limit is 2816"),
    ],
)
def test_file_without_a_valid_token_is_an_error(tmp_path: Path, text: bytes, why: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(text)
    file.chmod(0o600)
    with pytest.raises(ValueError, match=why) as caught:
        TokenCredentials("", str(file)).login()
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match=r"cannot read the token file .*none: No such file"):
        TokenCredentials("", str(tmp_path / "none")).login()


@pytest.mark.parametrize(
    ("address", "is_secret"),
    [
        ("tls:nyc.example.org:7471", True),
        ("unix:/run/qmgrd.sock", True),
        ("127.0.0.1:7470", True),
        ("127.9.9.9:7470", True),
        ("[::1]:7470", True),
        ("localhost:7470", True),
        ("10.0.0.1:7470", False),
        ("[fe80::1]:7470", False),
        ("nyc.example.org:7470", False),
        ("localhost.evil.example:7470", False),
        ("127.0.0.1.evil.example:7470", False),
    ],
)
def test_token_is_not_sent_to_another_machine_without_tls(address: str, is_secret: bool) -> None:
    found = TokenCredentials("a.b.c")
    if is_secret:
        found.check_address(parse(address))
        return
    with pytest.raises(ValueError, match="write tls:"):
        found.check_address(parse(address))
