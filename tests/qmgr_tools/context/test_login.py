"""qmctl login, and the login of other commands."""

import json
import stat
import time
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl
from tests.tokens import AUDIENCE, ISSUER, claims, pem, private_key, signed

pytestmark = pytest.mark.process
PASSWORD = "correct horse"


@pytest.fixture
def closed(own_daemon: Daemon) -> Daemon:
    """A daemon with the users alice, an administrator, and bob, who may do nothing."""
    with connect(own_daemon.unix) as client:
        client.admin.user_create("alice", PASSWORD, roles=["administrator"])
        client.admin.user_create("bob", PASSWORD)
    return own_daemon


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with the password of all users."""
    path = tmp_path / "pw"
    path.write_text(f"{PASSWORD}\n")
    path.chmod(0o600)
    return path


def test_login_is_required_and_the_remedy_is_named(qmctl: Qmctl, closed: Daemon) -> None:
    ended = qmctl("-c", closed.tcp, "status")
    assert (ended.code, ended.out) == (4, "")
    assert "(LOGIN_REQUIRED) -- give --user NAME and --password-file FILE" in ended.err
    assert ended.err.endswith(
        "qmctl context create NAME ADDRESS, then qmctl login --context NAME\n"
    )
    assert qmctl("-c", closed.unix, "status").code == 0


def test_options_stand_before_or_after_the_command(
    qmctl: Qmctl, closed: Daemon, file: Path
) -> None:
    login = ["--user", "alice", "--password-file", str(file)]
    assert qmctl("-c", closed.tcp, *login, "status").code == 0
    rows = qmctl("connection", "ls", "-c", closed.tcp, *login, "-o", "json").json
    assert [row["user"] for row in rows] == ["alice"]
    assert qmctl("-c", closed.tcp, "user", "ls", *login).code == 0
    assert "no such option: --user" in qmctl("user", "create", "x", *login).err


def test_wrong_password_and_missing_right_end_with_4(
    qmctl: Qmctl, closed: Daemon, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMGR_USER", "bob")
    monkeypatch.setenv("QMGR_PASSWORD_FILE", str(file))
    denied = qmctl("-c", closed.tcp, "queue", "create", "Q")
    assert (denied.code, "NOT_AUTHORIZED" in denied.err) == (4, True)
    grant = f"qmctl -c {closed.tcp} grant create --user bob create queue Q\n"
    assert denied.err.endswith(f"an administrator can grant it with: {grant}")
    monkeypatch.setenv("QMGR_USER", "nobody")
    failed = qmctl("-c", closed.tcp, "queue", "ls")
    assert (failed.code, "LOGIN_FAILED" in failed.err) == (4, True)
    assert "qmctl -c" in failed.err
    assert "user alter nobody --password" in failed.err
    assert PASSWORD not in failed.err


def test_login_is_stored_in_the_context(
    at_prompts: OnTerminal, qmctl: Qmctl, closed: Daemon, tmp_path: Path
) -> None:
    qmctl("context", "create", "here", closed.tcp, "--use")
    wrong = at_prompts("login", answers=("alice", "wrong"))
    assert (wrong.code, "LOGIN_FAILED" in wrong.out) == (4, True)
    assert qmctl("context", "show", "-o", "json").json["user"] is None
    ended = at_prompts("login", answers=("alice", PASSWORD))
    kept = tmp_path / "config" / "qmctl" / "here.password"
    assert (ended.code, PASSWORD in ended.out) == (0, False)
    assert f"context here logs in as alice; the password is in {kept}" in ended.out
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert PASSWORD not in (kept.parent / "contexts.json").read_text()
    assert qmctl("status").code == 0
    assert qmctl("-c", closed.tcp, "status").code == 4  # The login is that of the context.


def test_login_without_a_terminal_stores_a_path_or_what_it_read(
    qmctl: Qmctl, closed: Daemon, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qmctl("context", "create", "here", closed.tcp)
    words = ["login", "--context", "here", "--user", "bob", "-o", "json", "--password-file"]
    piped = qmctl(*words, "-", stdin=f"{PASSWORD}\n".encode()).json
    kept = tmp_path / "config" / "qmctl" / "here.password"
    assert piped == {
        "context": "here",
        "address": closed.tcp,
        "user": "bob",
        "password_file": str(kept),
        "token_file": None,
        "keyring": None,
    }
    assert kept.read_text() == f"{PASSWORD}\n"
    assert qmctl(*words, str(file)).json["password_file"] == str(file)
    assert not kept.exists()
    monkeypatch.setenv("QMGR_USER", "alice")
    listed = qmctl("--context", "here", "queue", "ls")
    assert (listed.code, "QMGR_USER=alice is ignored" in listed.err) == (0, True)
    assert qmctl("login", "--context", "here").code == 2
    assert qmctl("login", "-c", closed.tcp, "--user", "bob").code == 2


def test_password_is_asked_for_without_echo(at_prompts: OnTerminal, closed: Daemon) -> None:
    ended = at_prompts("-c", closed.tcp, "--user", "alice", "status", answers=(PASSWORD,))
    assert (ended.code, ended.out.count("Password of alice: ")) == (0, 1)
    assert PASSWORD not in ended.out


def test_user_above_its_limit_of_connections_sees_the_code_and_one_remedy(
    qmctl: Qmctl, closed: Daemon, file: Path
) -> None:
    login = ["--user", "bob", "--password-file", str(file)]
    with connect(closed.unix) as owner, connect(closed.tcp, user="bob", password=PASSWORD) as bob:
        bob.admin.queue_list()
        owner.admin.user_alter("bob", limits={"connections_max": 1})
        ended = qmctl("-c", closed.tcp, "queue", "ls", *login)
    assert ended.code == 5
    assert ended.err.endswith(
        "user bob has 1 open connection, and its limit is 1 (connections_max) "
        "(USER_CONNECTIONS_EXHAUSTED) -- an administrator can raise the limit with: "
        f"qmctl -c {closed.tcp} user alter bob --connections-max N\n"
    )


def test_top_logs_in(qmctl: Qmctl, closed: Daemon, file: Path) -> None:
    login = ["--user", "alice", "--password-file", str(file)]
    words = ["top", "--batch", "--count", "1", "--delay", "500ms", "-o", "json"]
    ended = qmctl("-c", closed.tcp, *words, *login)
    assert (ended.code, len(ended.lines)) == (0, 1)


def token_file(directory: Path, name: str, **others: str) -> str:
    """Returns a file with a token that is valid for ten minutes."""
    now_s = int(time.time())
    path = directory / name
    path.write_bytes(signed(claims(iat=now_s, exp=now_s + 600, **others)) + b"\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def issued(closed: Daemon, tmp_path: Path) -> Daemon:
    """The daemon *closed*, which accepts tokens as well."""
    (tmp_path / "issuer.pem").write_bytes(pem(private_key("p256")))
    config = tmp_path / "qmgrd.toml"
    config.write_text(
        f"[[auth.tokens]]\nissuer = {json.dumps(ISSUER)}\naudience = {json.dumps(AUDIENCE)}\n"
        f"keys_file = {json.dumps(str(tmp_path / 'issuer.pem'))}\n"
        'users = [{ claim = "sub", match = "*", user = "{1}" }]\n'
    )
    closed.program.stop()
    closed.options = ["--config", str(config)]
    closed.start()
    return closed


def test_token_is_a_login(
    qmctl: Qmctl, issued: Daemon, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, wrong = (token_file(tmp_path, name, sub=name) for name in ("alice", "nobody"))
    here = ["-c", issued.tcp]
    assert qmctl(*here, "--token-file", token, "status").code == 0
    (row,) = qmctl("connection", "ls", *here, "--token-file", token, "-o", "json").json
    assert row["user"] == "alice"
    failed = qmctl(*here, "--token-file", wrong, "status")
    assert (failed.code, "LOGIN_FAILED" in failed.err) == (4, True)
    both = qmctl(*here, "--token-file", token, "--user", "alice", "status")
    assert (both.code, "excludes --user" in both.err) == (2, True)
    far = qmctl("-c", "10.0.0.1:7470", "--token-file", token, "status")
    assert (far.code, "write tls:10.0.0.1:7470" in far.err) == (2, True)
    qmctl("context", "create", "here", issued.tcp)
    login = ["login", "--context", "here", "--token-file"]
    assert qmctl(*login, wrong).code == 4
    assert qmctl(*login, token, "-o", "json").json == {
        "context": "here",
        "address": issued.tcp,
        "user": None,
        "password_file": None,
        "token_file": token,
        "keyring": None,
    }
    assert qmctl("--context", "here", "status").code == 0
    assert qmctl("context", "show", "--context", "here", "-o", "json").json["user"] is None
    assert Path(token).read_text().strip() not in json.dumps(
        (tmp_path / "config" / "qmctl" / "contexts.json").read_text()
    )
    other = ["context", "create", "other", issued.tcp, "--token-file"]
    assert qmctl(*other, token, "--user", "alice").code == 2
    assert qmctl(*other, token).code == 0
    refused = qmctl(*other, wrong)
    assert (refused.code, "logs in with the token in" in refused.err) == (6, True)
    assert qmctl("--context", "other", "status").code == 0
    monkeypatch.setenv("QMGR_TOKEN_FILE", token)
    assert qmctl(*here, "status").code == 0
    assert qmctl(*here, "--user", "alice", "--password-file", str(file), "status").code == 0
