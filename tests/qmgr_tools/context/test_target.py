import json
import re
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.context import file as context_file
from qmgr_tools.context.target import CONTEXT_ENVIRONMENT, DEFAULT, ENVIRONMENT, Target, find


def address(connect: str | None, data_dir: Path | None, environment: dict[str, str]) -> str:
    return find(connect, data_dir, None, environment).address


@pytest.fixture
def known(tmp_path: Path) -> dict[str, str]:
    """An environment with the contexts nyc and ewr. The current context is nyc."""
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    with context_file.change(environment) as contexts:
        contexts.addresses = {"nyc": "nyc:1", "ewr": "ewr:2", "odd": "nowhere"}
        contexts.current = "nyc"
    return environment


def failure(connect: str | None = None, data_dir: Path | None = None, said: str = "") -> Failure:
    with pytest.raises(Failure) as refusal:
        address(connect, data_dir, {ENVIRONMENT: said})
    return refusal.value


def test_default_applies_without_an_option() -> None:
    assert address(None, None, {}) == DEFAULT
    assert address(None, None, {ENVIRONMENT: ""}) == DEFAULT


def test_environment_is_heard_unless_an_option_speaks() -> None:
    said = {ENVIRONMENT: "broker.example:1"}
    assert address(None, None, said) == "broker.example:1"
    assert address("[::1]:2", None, said) == "[::1]:2"


def test_unix_socket_is_an_address() -> None:
    assert address("unix:/run/q.sock", None, {}) == "unix:/run/q.sock"


@pytest.mark.parametrize(
    ("text", "expected", "user"),
    [
        ("tls://alice@nyc.example.org:7471/", "tls:nyc.example.org:7471", "alice"),
        ("tcp://127.0.0.1:7470", "127.0.0.1:7470", ""),
        ("alice@[::1]:7470", "[::1]:7470", "alice"),
        ("unix:///run/q.sock", "unix:///run/q.sock", ""),
    ],
)
def test_url_is_an_address_and_may_name_the_user(text: str, expected: str, user: str) -> None:
    for found in (find(text, None, None, {}), find(None, None, None, {ENVIRONMENT: text})):
        assert found.address == expected
        assert found.login == (context_file.KeptLogin(user) if user else None)


def test_password_in_an_address_is_refused_and_not_shown() -> None:
    found = failure(connect="tls://alice:secret@nyc:7471")
    assert "must not contain a password" in str(found)
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@host:1", "'' is not a valid user"),
        ("tls:a b@host:1", "'a b' is not a valid user"),
        ("nowhere", '"nowhere" is not host:port'),
        ("host:70000", '"host:70000" has the port 70000; the maximum is 65535'),
        ("host:0", '"host:0" has the port 0'),
        ("unix:relative", "'unix:relative' is not an absolute path"),
        ("unix:/a\0b", "'unix:/a\\x00b' is not an absolute path"),
        ("%s:1", '"%s:1" is not host:port'),
        ("", '"" is not host:port'),
    ],
)
def test_invalid_address_is_refused(text: str, why: str) -> None:
    found = failure(connect=text)
    assert (
        str(found) == f"--connect is not a valid address -- {why} -- "
        "use HOST:PORT, tls:HOST:PORT or unix:/PATH"
    )
    assert found.exit_code is Exit.USAGE


def test_environment_is_named_where_it_is_wrong() -> None:
    assert str(failure(said="x")).startswith("QMCTL_CONNECT is not a valid address")


def test_two_places_are_one_too_many(tmp_path: Path) -> None:
    assert failure("h:1", tmp_path).exit_code is Exit.USAGE


def test_data_dir_leads_to_the_unix_socket(tmp_path: Path) -> None:
    (tmp_path / "listening.json").write_text(json.dumps(["127.0.0.1:1", "unix:/s", "[::1]:2"]))
    assert address(None, tmp_path, {}) == "unix:/s"


def test_data_dir_without_a_unix_socket_leads_to_the_first_address(tmp_path: Path) -> None:
    (tmp_path / "listening.json").write_text(json.dumps(["127.0.0.1:1", "[::1]:2"]))
    assert address(None, tmp_path, {}) == "127.0.0.1:1"


def test_data_dir_of_no_daemon_says_how_to_start_one(tmp_path: Path) -> None:
    found = failure(data_dir=tmp_path)
    assert found.exit_code is Exit.UNAVAILABLE
    assert str(found) == (
        f"cannot find the address of the daemon of {tmp_path} -- "
        f"{tmp_path}/listening.json does not exist -- start it with: qmgrd --name NAME "
        f"--data-dir {tmp_path}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{", Exit.FAILED), ("{}", Exit.FAILED), ("[1]", Exit.FAILED), ("[]", Exit.UNAVAILABLE)],
)
def test_listening_file_that_says_nothing_is_named(
    tmp_path: Path, text: str, expected: Exit
) -> None:
    (tmp_path / "listening.json").write_text(text)
    found = failure(data_dir=tmp_path)
    assert found.exit_code is expected
    assert "listening.json" in str(found)


def test_current_context_stands_in_for_the_default(known: dict[str, str]) -> None:
    assert find(None, None, None, known) == Target("nyc:1", "qmctl context use", "nyc")


def test_order_is_option_then_address_then_context_of_the_environment(
    known: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "listening.json").write_text('["unix:/s"]')
    named = known | {CONTEXT_ENVIRONMENT: "ewr"}
    both = named | {ENVIRONMENT: "h:3"}
    assert find(None, None, None, named) == Target("ewr:2", CONTEXT_ENVIRONMENT, "ewr")
    assert find(None, None, None, both) == Target("h:3", ENVIRONMENT)
    assert find(None, None, "nyc", both) == Target("nyc:1", "--context", "nyc")
    assert find("h:4", None, None, both) == Target("h:4", "--connect")
    assert find(None, tmp_path, None, both) == Target("unix:/s", "--data-dir")


@pytest.mark.parametrize(
    ("connect", "environment", "remedy"),
    [
        ("nyc", {}, "if you mean the context: --context nyc"),
        (None, {ENVIRONMENT: "nyc"}, "if you mean the context: --context nyc"),
        ("jfk", {}, "use HOST:PORT, tls:HOST:PORT or unix:/PATH"),
    ],
)
def test_context_given_as_an_address_is_known(
    connect: str | None, environment: dict[str, str], remedy: str, known: dict[str, str]
) -> None:
    with pytest.raises(Failure, match=f" is not host:port -- {re.escape(remedy)}$") as refusal:
        find(connect, None, None, known | environment)
    assert refusal.value.exit_code is Exit.USAGE


def test_unknown_context_is_told_with_the_known_ones(known: dict[str, str]) -> None:
    with pytest.raises(Failure) as refusal:
        find(None, None, "jfk", known)
    assert str(refusal.value) == "context jfk does not exist -- existing contexts: ewr, nyc, odd"
    assert refusal.value.exit_code is Exit.NOT_FOUND


def test_context_without_an_address_is_named(known: dict[str, str]) -> None:
    with pytest.raises(Failure, match=r"^context odd is not a valid address -- "):
        find(None, None, "odd", known)


@pytest.mark.parametrize(
    ("connect", "context", "what"),
    [("h:1", "nyc", "--connect and --context"), (None, "nyc", "--data-dir and --context")],
)
def test_context_excludes_the_other_options(
    connect: str | None, context: str, what: str, known: dict[str, str], tmp_path: Path
) -> None:
    data_dir = None if connect else tmp_path
    with pytest.raises(Failure, match=rf"^conflicting options {what}") as refusal:
        find(connect, data_dir, context, known)
    assert refusal.value.exit_code is Exit.USAGE


def test_damaged_file_matters_only_where_it_is_asked(known: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "qmctl" / "contexts.json").write_text("{")
    assert find("h:1", None, None, known).address == "h:1"
    assert find(None, None, None, known | {ENVIRONMENT: "h:2"}).address == "h:2"
    with pytest.raises(Failure, match=r"^cannot read the contexts -- "):
        find(None, None, None, known)


@pytest.mark.parametrize(
    ("text", "why"),
    [("[" * 100_000, "recursion"), ('["h:0x"]', '"h:0x" is not host:port'), ('["h:0"]', "port 0")],
)
def test_damaged_listening_file_is_told(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "listening.json").write_text(text)
    with pytest.raises(Failure, match=why) as refusal:
        find(None, tmp_path, None, {})
    assert refusal.value.exit_code is Exit.FAILED
    assert refusal.value.parts[2] == "use --connect"


def test_context_brings_its_login(known: dict[str, str]) -> None:
    with context_file.change(known) as contexts:
        contexts.logins["nyc"] = context_file.KeptLogin("alice", "/p")
    assert find(None, None, "nyc", known).login == context_file.KeptLogin("alice", "/p")
    assert find("h:1", None, None, known).login is None


def test_list_of_addresses_is_one_target() -> None:
    found = find("tls://alice@a:1, tls://b:2/", None, None, {})
    assert found.address == "tls:a:1,tls:b:2"
    assert found.login == context_file.KeptLogin("alice")
    assert find(None, None, None, {ENVIRONMENT: "a:1,unix:/b,c"}).address == "a:1,unix:/b,c"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a:1,a:1", "--connect is not a valid list of addresses -- a:1: it occurs twice in the"),
        ("a:1,tls:b:2", "tls:b:2: some addresses use TLS and others do not"),
        ("a:1,b:0", 'b:0: port 0 of "b:0" is out of range'),
        ("a:1,b", '"a:1,b" is not host:port'),
        ("a:1,unix:b", "--connect is not a valid address -- 'unix:b' is not an absolute path"),
    ],
)
def test_invalid_list_is_told(text: str, why: str) -> None:
    with pytest.raises(Failure, match=re.escape(why)) as refusal:
        find(text, None, None, {})
    assert refusal.value.exit_code is Exit.USAGE
