import json
import os
from pathlib import Path

import pytest

from qmgr_tools.context import password as passwords
from tests.qmgr_tools.conftest import Daemon, Qmctl


@pytest.fixture
def two(qmctl: Qmctl) -> Qmctl:
    """A function that runs qmctl with the contexts ewr and nyc. The current context is nyc."""
    qmctl("context", "create", "nyc", "nyc.example:7470", "--use")
    qmctl("context", "create", "ewr", "unix:/run/ewr.sock")
    return qmctl


def test_added_context_is_listed_with_its_mark(two: Qmctl) -> None:
    assert two("context", "ls").out.splitlines() == [
        "CURRENT\tCONTEXT\tADDRESS\tUSER",
        "\tewr\tunix:/run/ewr.sock\t",
        "*\tnyc\tnyc.example:7470\t",
    ]
    assert two("context", "ls", "-o", "json").json == [
        {"context": "ewr", "address": "unix:/run/ewr.sock", "user": None, "current": False},
        {"context": "nyc", "address": "nyc.example:7470", "user": None, "current": True},
    ]


def test_environment_that_goes_over_it_is_noted(
    two: Qmctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMCTL_CONTEXT", "ewr")
    expected = "QMCTL_CONTEXT=ewr overrides the current context\n"
    assert two("context", "ls").err == expected
    assert two("context", "ls", "-o", "json").err == ""


def test_context_is_used_from_then_on(two: Qmctl) -> None:
    assert two("context", "use", "ewr").out == ("the current context is ewr: unix:/run/ewr.sock\n")
    assert two("context", "show", "-o", "json").json == {
        "context": "ewr",
        "address": "unix:/run/ewr.sock",
        "source": "qmctl context use",
        "user": None,
    }
    assert two("context", "use", "--none").out == "there is no current context\n"
    assert two("context", "show", "-o", "json").json["context"] is None


@pytest.mark.parametrize("words", [[], ["nyc", "--none"]], ids=["nothing", "both"])
def test_use_wants_one_of_name_and_none(words: list[str], two: Qmctl) -> None:
    assert two("context", "use", *words).code == 2


def test_option_before_the_command_goes_over_the_current_one(two: Qmctl) -> None:
    assert two("--context", "ewr", "context", "show").out == (
        "context\tewr\naddress\tunix:/run/ewr.sock\nchosen by\t--context\n"
    )
    ended = two("--context", "ewr", "context", "show", "-c", "h:1", "-o", "json")
    assert ended.json == {"context": None, "address": "h:1", "source": "--connect", "user": None}


@pytest.mark.parametrize(
    "words",
    [
        ["context", "use", "jfk"],
        ["context", "delete", "jfk"],
        ["context", "delete", "jfk", "--dry-run"],
        ["context", "show", "--context", "jfk"],
        ["--context", "jfk", "status"],
    ],
    ids=" ".join,
)
def test_unknown_one_is_told_with_the_known(words: list[str], two: Qmctl) -> None:
    ended = two(*words)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == "error: context jfk does not exist -- existing contexts: ewr, nyc\n"


def test_other_address_is_refused_unless_it_is_to_replace(two: Qmctl) -> None:
    ended = two("context", "create", "nyc", "h:1")
    assert (ended.code, ended.out) == (6, "")
    assert ended.err == (
        "error: cannot create context nyc -- it already exists, with address "
        "nyc.example:7470 -- use --replace, or choose another name\n"
    )
    assert two("context", "create", "nyc", "nyc.example:7470").code == 0
    assert two("context", "create", "nyc", "h:1", "--replace", "-o", "json").json == {
        "context": "nyc",
        "address": "h:1",
        "user": None,
        "current": True,
    }


@pytest.mark.parametrize(("name", "address"), [("a b", "h:1"), ("", "h:1"), ("a", "h")])
def test_invalid_values_are_usage_errors(name: str, address: str, qmctl: Qmctl) -> None:
    assert qmctl("context", "create", name, address).code == 2
    assert qmctl("context", "ls", "-o", "json").json == []


def test_removed_one_is_gone(two: Qmctl) -> None:
    tried = two("context", "delete", "nyc", "--dry-run")
    assert (tried.code, tried.out) == (
        0,
        "would delete context nyc, with address nyc.example:7470; nothing changed\n",
    )
    assert two("context", "delete", "nyc").out == (
        "deleted context nyc, with address nyc.example:7470; there is no current context\n"
    )
    assert [row["context"] for row in two("context", "ls", "-o", "json").json] == ["ewr"]


def test_damaged_file_is_told_and_kept(qmctl: Qmctl, tmp_path: Path) -> None:
    file = tmp_path / "config" / "qmctl" / "contexts.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    for words in (["context", "ls"], ["context", "create", "a", "h:1"], ["status"]):
        ended = qmctl(*words)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith(f"error: cannot read the contexts -- {file}: ")
    assert file.read_text() == "{"


@pytest.mark.process
def test_status_says_by_which_context_it_came(qmctl: Qmctl, daemon: Daemon) -> None:
    qmctl("context", "create", "here", daemon.unix, "--use")
    ended = qmctl("status")
    assert ended.out.startswith(f"context\there\naddress\t{daemon.unix}\nqueue manager\tQM\n")
    found = qmctl("status", "-o", "json").json
    assert (found["context"], found["address"]) == ("here", daemon.unix)
    assert qmctl("status", "-c", daemon.tcp).out.startswith(f"address\t{daemon.tcp}\n")


def test_context_that_leads_nowhere_is_named(qmctl: Qmctl) -> None:
    qmctl("context", "create", "gone", "unix:/nowhere/qmgrd.sock", "--use")
    ended = qmctl("status")
    assert ended.code == 5
    assert (
        "is qmgrd running there? the address is from context gone; to use another "
        "address: --connect" in ended.err
    )


def test_context_keeps_a_user_and_the_path_of_its_password(qmctl: Qmctl, tmp_path: Path) -> None:
    made = qmctl("context", "create", "nyc", "h:1", "--user", "alice", "--password-file", "pw")
    assert made.out.startswith("context nyc has address h:1 and user alice; to make it ")
    stored = json.loads((tmp_path / "config" / "qmctl" / "contexts.json").read_text())
    assert stored["contexts"]["nyc"] == {
        "address": "h:1",
        "user": "alice",
        "password_file": os.path.abspath("pw"),
    }
    assert qmctl("context", "ls").out.splitlines()[1] == "\tnyc\th:1\talice"
    assert qmctl("context", "show", "--context", "nyc", "-o", "json").json["user"] == "alice"
    assert qmctl("context", "create", "nyc", "h:1").code == 0
    assert qmctl("context", "show", "--context", "nyc", "-o", "json").json["user"] == "alice"


def test_login_of_a_context_is_not_replaced_by_accident(qmctl: Qmctl) -> None:
    qmctl("context", "create", "nyc", "h:1", "--user", "alice")
    refused = qmctl("context", "create", "nyc", "h:1", "--user", "bob")
    assert (refused.code, "it already exists, and logs in as alice" in refused.err) == (6, True)
    replaced = qmctl("context", "create", "nyc", "h:1", "--user", "bob", "--replace", "-o", "json")
    assert replaced.json["user"] == "bob"
    assert qmctl("context", "create", "nyc", "h:2", "--replace", "-o", "json").json["user"] is None


@pytest.mark.parametrize("words", [["create", "nyc", "h:1", "--replace"], ["delete", "nyc"]])
def test_stored_password_goes_with_its_context(
    words: list[str], qmctl: Qmctl, tmp_path: Path
) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    qmctl("context", "create", "nyc", "h:1", "--user", "alice")
    path = passwords.keep("nyc", "secret", environment)
    assert path.exists()
    assert qmctl("context", *words).code == 0
    assert not path.exists()


def test_password_without_a_user_is_wrong_usage(qmctl: Qmctl) -> None:
    assert qmctl("context", "create", "nyc", "h:1", "--password-file", "pw").code == 2


def test_user_in_the_address_is_the_user_of_the_context(qmctl: Qmctl) -> None:
    created = qmctl("context", "create", "nyc", "tls://alice@nyc:7471", "-o", "json").json
    assert (created["address"], created["user"]) == ("tls:nyc:7471", "alice")
    other = qmctl("context", "create", "ewr", "tls:alice@ewr:7471", "--user", "bob", "-o", "json")
    assert (other.json["address"], other.json["user"]) == ("tls:ewr:7471", "bob")
