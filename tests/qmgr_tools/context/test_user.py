"""The user as which a command logs in."""

import io
import sys

import pytest

from qmgr_client.credentials import Credentials, TokenCredentials
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.context.file import KeptLogin
from qmgr_tools.context.user import Given, arguments, find, note_ignored

KEPT = KeptLogin("kept", "/kept")
BOTH = {"QMGR_USER": "env", "QMGR_PASSWORD_FILE": "/env"}


@pytest.mark.parametrize(
    ("user", "file", "kept", "environment", "expected"),
    [
        ("opt", "/opt", KEPT, BOTH, ("opt", "", "/opt")),
        (None, None, KEPT, BOTH, ("kept", "", "/kept")),
        (None, None, None, BOTH, ("env", "", "/env")),
        (None, None, None, {"QMGR_USER": "env", "QMGR_PASSWORD": "p"}, ("env", "p", "")),
        # A password of a later setting is used only for the same user.
        ("kept", None, KEPT, BOTH, ("kept", "", "/kept")),
        ("env", None, KEPT, BOTH, ("env", "", "/env")),
        (None, None, KeptLogin("env"), BOTH, ("env", "", "/env")),
        ("opt", None, KEPT, {"QMGR_PASSWORD": "p"}, ("opt", "p", "")),
        (None, "/opt", KEPT, BOTH, ("kept", "", "/opt")),
        (None, "/opt", None, BOTH, ("env", "", "/opt")),
    ],
)
def test_first_setting_wins(
    user: str | None,
    file: str | None,
    kept: KeptLogin | None,
    environment: dict[str, str],
    expected: tuple[str, str, str],
) -> None:
    assert find("test", Given(user, file), kept, environment) == Credentials(*expected)


@pytest.mark.parametrize(
    ("kept", "used"), [(KEPT, "as kept"), (KeptLogin("", "", "/token"), "with a token")]
)
def test_user_of_the_environment_that_is_not_used_is_noted_once(
    kept: KeptLogin, used: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = f"other.{used.split()[-1]}"  # No other test has noted this user.
    for _ in range(2):
        note_ignored(Given(), kept, {"QMGR_USER": named})
    noted = capsys.readouterr().err
    assert noted.count("\n") == 1
    assert noted.startswith(f"QMGR_USER={named} is ignored")
    assert noted.endswith(f"the command logs in {used}; to log in as {named}: --user {named}\n")


@pytest.mark.parametrize(
    ("given", "kept", "named"),
    [(Given(), KEPT, "kept"), (Given("opt", "/opt"), KEPT, "alone"), (Given(), None, "alone")],
)
def test_user_that_is_used_or_chosen_needs_no_note(
    given: Given, kept: KeptLogin | None, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    note_ignored(given, kept, {"QMGR_USER": named})
    assert capsys.readouterr().err == ""


def test_without_a_setting_there_is_no_login() -> None:
    assert find("test", Given(), None, {}) is None
    assert arguments(None) == {}
    found = arguments(Credentials("a", "p"))
    assert found == {"user": "a", "password": "p", "password_file": ""}


@pytest.mark.parametrize(
    ("user", "file", "environment", "why"),
    [
        (None, "/opt", {}, "--password-file is given without a user"),
        (None, None, {"QMGR_PASSWORD": "p"}, "a password is given without a user"),
        (None, None, {**BOTH, "QMGR_PASSWORD": "p"}, "either a password or a password file"),
        ("opt", None, BOTH, "the password of opt is required, and there is no terminal"),
        (None, None, {"QMGR_USER": "env"}, "the password of env is required"),
    ],
)
def test_incomplete_login_is_wrong_usage(
    user: str | None,
    file: str | None,
    environment: dict[str, str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(Failure, match=why) as caught:
        find("test", Given(user, file), None, environment)
    assert caught.value.exit_code is Exit.USAGE


def test_required_password_can_be_stored_in_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(Failure, match=r"then qmctl login --context NAME$"):
        find("test", Given("mon"), None, {})


def test_completion_never_asks() -> None:
    with pytest.raises(Failure, match="the password of opt is required"):
        find("complete", Given("opt"), None, {}, asks=False)


TOKEN = KeptLogin("", "", "/token")


@pytest.mark.parametrize(
    ("given", "kept", "environment", "expected"),
    [
        (Given(token_file="/opt"), KEPT, BOTH, TokenCredentials("", "/opt")),
        (Given(), TOKEN, BOTH, TokenCredentials("", "/token")),
        (Given("env"), TOKEN, BOTH, Credentials("env", "", "/env")),
        (Given("opt", "/p"), TOKEN, {"QMGR_TOKEN": "a.b.c"}, Credentials("opt", "", "/p")),
        (Given(), KEPT, {"QMGR_TOKEN": "a.b.c"}, Credentials("kept", "", "/kept")),
        (Given(), None, {"QMGR_TOKEN": "a.b.c"}, TokenCredentials("a.b.c")),
        (Given(), None, {"QMGR_TOKEN_FILE": "/env"}, TokenCredentials("", "/env")),
    ],
)
def test_token_follows_the_same_order(
    given: Given,
    kept: KeptLogin | None,
    environment: dict[str, str],
    expected: Credentials | TokenCredentials,
) -> None:
    assert find("test", given, kept, environment) == expected


@pytest.mark.parametrize(
    ("given", "environment", "why"),
    [
        (Given("opt", None, "/t"), {}, "excludes --user"),
        (Given(None, "/p", "/t"), {}, "excludes --user"),
        (Given(None, None, ""), {}, "needs a file"),
        (Given(), {**BOTH, "QMGR_TOKEN": "a.b.c"}, "but also QMGR_USER"),
    ],
)
def test_contradictory_token_is_wrong_usage(
    given: Given, environment: dict[str, str], why: str
) -> None:
    with pytest.raises(Failure, match=why) as caught:
        find("test", given, None, environment)
    assert caught.value.exit_code is Exit.USAGE


def test_arguments_of_a_token() -> None:
    found = arguments(TokenCredentials("", "/t"))
    assert found == {"token": "", "token_file": "/t"}
