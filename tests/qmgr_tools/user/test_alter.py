"""qmctl user: create, alter."""

from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl

pytestmark = pytest.mark.process
ADMIN = ("user", "create", "admin", "--role", "administrator", "--generate")


def works(daemon: Daemon, user: str, password: str) -> bool:
    """Returns whether the daemon accepts the login."""
    try:
        with connect(daemon.tcp, user=user, password=password):
            return True
    except RequestError as error:
        if error.code != ErrorCode.LOGIN_FAILED:
            raise
        return False


def test_first_user_is_an_administrator_and_closes_the_queue_manager(
    at: Qmctl, own_daemon: Daemon
) -> None:
    assert "login\topen: clients need no user" in at("status").out
    refused = at("user", "create", "bob", "--generate")
    assert (refused.code, "ADMINISTRATOR_REQUIRED" in refused.err) == (6, True)
    assert refused.err.endswith(f"-c {own_daemon.unix} user create bob --role administrator\n")
    first, password = at(*ADMIN).out.splitlines()
    said = "created user admin with role administrator; all clients must log in from now on"
    assert first == said
    assert works(own_daemon, "admin", password.removeprefix("password: "))
    assert not works(own_daemon, "admin", "wrong")
    assert "login\trequired" in at("status").out
    assert at("status", "-o", "json").json["open"] is False


def test_user_of_a_queue_manager_is_bound_and_its_links_are_allowed(at: Qmctl) -> None:
    at(*ADMIN)
    store_id = "6a" * 16
    bound = ("--role", "peer", "--queue-manager", "EWR", "--store-id", store_id)
    made = at("user", "create", "ewr", *bound, "--generate")
    assert made.out.splitlines()[0] == (
        "created user ewr with role peer for links of queue manager EWR, which are now allowed"
    )
    assert at("user", "show", "ewr", "-o", "json").json["queue_manager"] == "EWR"
    assert at("dump", "-o", "json").json["inbound"] == {"EWR": {"store_id": store_id}}
    other = at("user", "create", "other", "--queue-manager", "EWR", "--generate")
    assert (other.code, "user ewr is already bound to queue manager EWR" in other.err) == (2, True)
    assert at("user", "alter", "ewr", "--no-queue-manager").code == 0
    assert at("user", "show", "ewr", "-o", "json").json["queue_manager"] == ""
    lone = at("user", "create", "x", "--store-id", store_id, "--generate")
    assert (lone.code, "--store-id needs --queue-manager" in lone.err) == (2, True)


def test_password_comes_from_a_file_standard_input_or_nowhere(
    at: Qmctl, own_daemon: Daemon, tmp_path: Path
) -> None:
    at(*ADMIN)
    file = tmp_path / "pw"
    file.write_text("of file\n")
    file.chmod(0o600)
    made = at("user", "create", "a", "--password-file", str(file), "-o", "json").json
    assert set(made) == {
        "user",
        "enabled",
        "roles",
        "grants",
        "has_password",
        "created_us",
        "password_us",
        "limits",
        "given",
        "queue_manager",
    }
    assert works(own_daemon, "a", "of file")
    at("user", "create", "b", "--password-file", "-", stdin=b"piped\n")
    assert works(own_daemon, "b", "piped")
    hint = "created user c; to grant it rights: "
    assert at("user", "create", "c", "--no-password").out.startswith(hint)
    assert at("user", "show", "c", "-o", "json").json["has_password"] is False
    asked = at("user", "create", "d")
    assert (asked.code, "there is no terminal to ask for it" in asked.err) == (2, True)
    assert "use --password-file FILE, --generate or --no-password" in asked.err
    assert at("user", "show", "d").code == 3


def test_password_is_typed_twice_without_echo(
    at: Qmctl, at_prompts: OnTerminal, own_daemon: Daemon
) -> None:
    at(*ADMIN)
    typed = ("secret", "sekret", "secret", "secret")
    ended = at_prompts("-c", own_daemon.unix, "user", "create", "a", answers=typed)
    assert ended.code == 0
    assert "values do not match" in ended.out
    assert "secret" not in ended.out
    assert works(own_daemon, "a", "secret")
    ended = at_prompts(
        "-c", own_daemon.unix, "user", "alter", "a", "--password", answers=("new", "new")
    )
    assert ended.out.endswith("altered user a; closed 0 connections\n")
    assert works(own_daemon, "a", "new")


def test_changes_are_in_force_at_once(at: Qmctl, own_daemon: Daemon) -> None:
    at(*ADMIN)
    at("user", "create", "a", "--password-file", "-", stdin=b"secret")
    assert at("user", "alter", "a", "--role", "producer", "--role", "monitor").code == 0
    assert at("user", "show", "a", "-o", "json").json["roles"] == ["producer", "monitor"]
    assert at("user", "alter", "a", "--no-role", "-o", "json").json["roles"] == []
    with connect(own_daemon.tcp, user="a", password="secret"):
        found = at("user", "alter", "a", "--disable", "-o", "json").json
        assert (found["enabled"], found["connections"]) == (False, 1)
    assert not works(own_daemon, "a", "secret")
    assert at("user", "alter", "a", "--enable").out == "altered user a\n"
    assert works(own_daemon, "a", "secret")
    made = at("user", "alter", "a", "--generate", "-o", "json").json
    assert works(own_daemon, "a", made["password"])
    assert at("user", "alter", "a", "--no-password", "-o", "json").json["has_password"] is False
    assert not works(own_daemon, "a", made["password"])


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["alter", "admin"], 2, "no change is given"),
        (["alter", "admin", "--generate", "--no-password"], 2, "exclude each other"),
        (["alter", "admin", "--role", "a", "--no-role"], 2, "exclude each other"),
        (["alter", "nobody", "--password"], 3, "USER_UNKNOWN"),
        (["alter", "admin", "--disable"], 6, "ADMINISTRATOR_REQUIRED"),
        (["alter", "admin", "--no-role"], 6, "make another user an administrator first"),
        (["create", "a/b", "--no-password"], 2, "NAME_INVALID"),
        (["create", "admin", "--no-password"], 6, "user alter admin"),
        (["create", "x", "--no-password", "--role", "producr"], 3, "did you mean producer?"),
        (["create", "x", "--password-file", "/nowhere"], 1, "cannot read the password file"),
    ],
)
def test_mistakes_are_explained(words: list[str], code: int, error: str, at: Qmctl) -> None:
    at(*ADMIN)
    ended = at("user", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err
