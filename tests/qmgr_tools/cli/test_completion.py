import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.cli.completion import FILES, _names, joined
from qmgr_tools.context import file as context_file
from tests import forked
from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

Tab = Callable[..., list[str]]


OUT_OF_TIME = 1
TABS = 5  # number of attempts, because a busy machine may be too slow for one Tab


def asked(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs qmctl in the way a shell does to get completions."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("QMCTL_")}
    for _ in range(TABS):
        done = forked.run(["qmctl"], clean | environment)
        if done.returncode != OUT_OF_TIME:
            break
    return done


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a separate home directory."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def tab(daemon: Daemon, home: dict[str, str]) -> Tab:
    """A function that returns bash's completions for words, the last of which is incomplete."""

    def offered(*words: str, **environment: str) -> list[str]:
        done = asked(
            home
            | {"QMCTL_CONNECT": daemon.unix, "_QMCTL_COMPLETE": "complete_bash"}
            | {"COMP_WORDS": "\n".join(["qmctl", *words]), "COMP_CWORD": str(len(words))}
            | environment
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return offered


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["queue", "show"], "local remote transmission"),
        (["queue", "show", "--watch"], "local remote transmission"),
        (["queue", "purge"], "local remote"),
        (["queue", "delete"], "local remote"),
        (["put"], "local remote"),
        (["put", "X", "--reply-to"], "local remote"),
        (["get"], "local"),
        (["browse"], "local transmission"),
        (["link", "show"], "link"),
        (["link", "doctor"], "link"),
        (["link", "explain"], "link"),
        (["link", "start"], "link"),
        (["link", "alter"], "link"),
        (["link", "stop"], "link"),
        (["link", "delete"], "link"),
        (["queue", "create"], ""),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_names_are_those_of_the_daemon(
    words: list[str], kinds: str, tab: Tab, queue: str, way: str
) -> None:
    names = {"local": queue, "remote": f"{queue}@{way}", "transmission": f"@{way}", "link": way}
    found = set(tab(*words, "")) & set(names.values())
    assert found == {names[kind] for kind in kinds.split()}


@pytest.mark.process
def test_queues_to_alter_and_codes_to_explain(tab: Tab, queue: str, way: str) -> None:
    names = {queue, f"{queue}@{way}", f"@{way}"}
    assert names <= set(tab("queue", "alter", ""))
    assert tab("explain", "QUEUE_F") == ["QUEUE_FULL"]


@pytest.mark.long
@pytest.mark.process
def test_subscriptions_are_offered_where_they_may_stand(
    tab: Tab, qm: Qmctl, queue: str, topic: str
) -> None:
    qm("topic", "set", topic, "--redelivery-limit", "2")
    name = f"{queue}:a"
    ways = (
        ["get"],
        ["browse"],
        ["queue", "show"],
        ["sub", "show"],
        ["sub", "alter"],
        ["sub", "delete"],
        ["sub", "healthy"],
        ["topic", "what-lacks"],
        ["republish", "send", "--to"],
    )
    for words in ways:
        assert name in tab(*words, ""), words
    assert name not in tab("put", "")
    assert topic in tab("pub", "")
    assert topic in tab("topic", "show", "")
    assert "missed" in tab("sub", "ls", "--columns", "")
    assert {"a", "b"} <= set(tab("sub", "show", queue, ":", COMP_CWORD="4"))
    qm("topic", "delete", topic)


@pytest.mark.process
def test_subscription_of_no_client_is_completed(tab: Tab, qm: Qmctl, queue: str) -> None:
    qm("sub", "create", queue, f":{queue}")
    assert queue in tab("sub", "show", ":", queue[:1])
    qm("sub", "delete", f":{queue}")


@pytest.mark.process
def test_templates_and_values_are_offered(tab: Tab, daemon: Daemon) -> None:
    with connect(daemon.unix) as client:
        client.admin.template_set("TAB.*")
        assert "TAB.*" in tab("template", "show", "TA")
        client.admin.template_delete("TAB.*")
    assert tab("queue", "create", "Q", "--overflow", "") == [
        "refuse",
        "discard-oldest",
        "dead-letter-oldest",
    ]


def test_open_connections_are_offered_with_their_names(
    tab: Tab, daemon: Daemon, home: dict[str, str]
) -> None:
    with connect(daemon.unix, name="billing") as client, connect(daemon.unix, name="$(a b)") as bad:
        numbers = {row["name"]: str(row["connection"]) for row in client.admin.connection_list()}
        bad.admin.status()
        assert {numbers["billing"], numbers["$(a b)"]} <= set(tab("connection", "close", ""))
        said = home | {"QMCTL_CONNECT": daemon.unix, "_QMCTL_COMPLETE": "complete_fish"}
        said |= {"_TYPER_COMPLETE_ARGS": "qmctl connection close "}
        shown = asked(said | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}).stdout
    assert f"{numbers['billing']}\tbilling\n" in shown
    assert f"{numbers['$(a b)']}\n" in shown
    assert "$" not in shown


@pytest.mark.process
def test_jobs_are_offered_and_queues_to_move_to(tab: Tab, qm: Qmctl, queue: str) -> None:
    qm("queue", "purge", queue, "--yes")
    rows = qm("job", "ls", "-o", "json", "--where", f"queue={queue}").json
    assert str(rows[0]["job"]) in tab("job", "show", "")
    assert queue in tab("move", queue, "")
    assert "dead_queue" not in tab("dlq", "ls", "--columns", "")
    assert "reason" in tab("dlq", "ls", "--columns", "")


@pytest.mark.process
def test_groups_are_offered_as_text_where_that_is_a_name(tab: Tab, qm: Qmctl, queue: str) -> None:
    for name in ("N12345", "two words"):
        assert qm("put", queue, "x", "--group", name).code == 0
    spaced = b"two words".ljust(24, b"\0").hex()
    assert tab("group", "show", queue, "") == ["N12345", spaced]
    assert tab("get", queue, "--group", "N") == ["N12345"]


@pytest.mark.process
def test_only_what_begins_so_is_offered(tab: Tab, queue: str) -> None:
    assert queue in tab("get", queue[:2])
    assert tab("get", f"{queue}.no-such-") == []


@pytest.mark.process
def test_bash_is_given_the_piece_that_it_replaces(tab: Tab, queue: str, way: str) -> None:
    """Bash replaces only the piece of the word that begins with the @."""
    assert tab("put", queue, "@") == [f"@{way}"]
    assert tab("put", queue, "@", "L") == [f"@{way}"]
    assert f"@{way}" in tab("queue", "show", "@")
    assert f"@{way}" in tab("queue", "show", "@", "L")
    assert f"@{way}" in tab("queue", "create", "NEW", "@")


@pytest.mark.process
def test_zsh_and_fish_are_given_names_too(
    queue: str, way: str, daemon: Daemon, home: dict[str, str]
) -> None:
    said = home | {"QMCTL_CONNECT": daemon.unix, "_TYPER_COMPLETE_ARGS": f"qmctl put {queue}@"}
    zsh = asked(said | {"_QMCTL_COMPLETE": "complete_zsh"})
    assert (zsh.returncode, zsh.stderr) == (0, "")
    assert zsh.stdout == f"_arguments '*: :((\"{queue}@{way}\"))'\n"
    fish = said | {"_QMCTL_COMPLETE": "complete_fish"}
    assert asked(fish | {"_TYPER_COMPLETE_FISH_ACTION": "is-args"}).returncode == 0
    shown = asked(fish | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})
    assert (shown.stdout, shown.stderr) == (f"{queue}@{way}\n", "")


@pytest.mark.process
def test_daemon_of_the_command_line_is_asked(
    tab: Tab, queue: str, daemon: Daemon, home: dict[str, str]
) -> None:
    nowhere = {"QMCTL_CONNECT": "unix:/nowhere/qmgrd.sock"}
    with context_file.change(home) as contexts:
        contexts.addresses["here"] = daemon.unix
    host, _, port = daemon.tcp.rpartition(":")
    assert tab("get", queue, **nowhere) == []
    for where in (
        ["--context", "here"],
        ["--context", "=", "here"],
        ["--data-dir", str(daemon.data_dir)],
        ["-c", host, ":", port],
    ):
        assert queue in tab(*where, "get", queue, **nowhere), where
    assert queue in tab("get", "-c", host, ":", port, queue, **nowhere)


@pytest.mark.process
def test_contexts_are_offered_with_their_addresses(tab: Tab, home: dict[str, str]) -> None:
    with context_file.change(home) as contexts:
        contexts.addresses = {"nyc": "h:1", "ewr": "h:2"}
    for words in (
        ["--context"],
        ["status", "--context"],
        ["context", "use"],
        ["context", "delete"],
    ):
        assert tab(*words, "") == ["ewr", "nyc"]
    assert tab("--context", "=") == ["ewr", "nyc"]
    assert tab("--context", "=", "n") == ["nyc"]
    said = {"_TYPER_COMPLETE_ARGS": "qmctl context use ", "_QMCTL_COMPLETE": "complete_fish"}
    fish = asked(home | said | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})
    assert fish.stdout == "ewr\th:2\nnyc\th:1\n"


@pytest.mark.process
def test_commands_and_options_need_no_daemon(tab: Tab) -> None:
    nowhere = {"QMCTL_CONNECT": "unix:/nowhere/qmgrd.sock"}
    assert tab("queue", "pu", **nowhere) == ["purge"]
    assert tab("queue", "delete", "--dr", **nowhere) == ["--dry-run"]
    assert tab("status", "-o", "", **nowhere) == ["table", "json"]


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [
        ["-c", "nowhere", "get", ""],
        ["--context", "unknown", "get", ""],
        ["-c", "h", ":", "1", "--context", "b", "get", ""],
        ["get", "--wait", "soon", "Q"],
    ],
    ids="-".join,
)
def test_what_cannot_be_is_met_with_silence(words: list[str], tab: Tab) -> None:
    assert tab(*words, QMCTL_CONNECT="unix:/nowhere/qmgrd.sock") == []


@pytest.mark.process
def test_damaged_contexts_are_met_with_silence(tab: Tab, home: dict[str, str]) -> None:
    file = context_file.path_of(home)
    assert file is not None
    file.parent.mkdir(parents=True)
    file.write_text("{")
    assert tab("context", "use", "") == []
    assert tab("get", "", QMCTL_CONNECT="") == []


@pytest.mark.long
@pytest.mark.process
def test_who_does_not_answer_is_not_waited_for(home: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = asked(
            home
            | {"QMCTL_CONNECT": f"127.0.0.1:{server.getsockname()[1]}"}
            | {"COMP_WORDS": "qmctl\nget\n", "COMP_CWORD": "2", "_QMCTL_COMPLETE": "complete_bash"}
        )
    # If the client had given up before the alarm, the exit code would be 0.
    assert (done.returncode, done.stdout, done.stderr) == (OUT_OF_TIME, "", "")


def test_invalid_name_is_skipped() -> None:
    """zsh evaluates completions, so invalid names must be omitted."""
    bad = ["$(reboot)", "`reboot`", "a b", "'", "", "@", "A@", "A@B@C", "x" * 65, None, 1]
    assert _names(["OK", *bad, "@NYC", "OK@NYC"]) == ["OK", "@NYC", "OK@NYC"]


@pytest.mark.parametrize(
    ("broken", "whole", "kept"),
    [
        ("show|PAY|@", "show|PAY@", "PAY"),
        ("show|PAY|@|E", "show|PAY@E", "PAY"),
        ("show|@", "show|@", ""),
        ("show|@|E", "show|@E", ""),
        ("-c|h|:|1", "-c|h:1", "h:"),
        ("-c|h|:", "-c|h:", "h:"),
        ("-c|[|::|1]|:|7470|show|", "-c|[::1]:7470|show|", ""),
        ("-c|unix|:|/run/q|show|Q", "-c|unix:/run/q|show|Q", ""),
        ("--context|=", "--context=", "--context="),
        ("--context|=|n", "--context=n", "--context="),
        ("-c|h|:|1|put|x|@|y|z", "-c|h:1|put|x@y|z", ""),
    ],
)
def test_words_that_bash_broke_are_joined(broken: str, whole: str, kept: str) -> None:
    words = broken.split("|")
    environment = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert joined(environment) == kept
    assert environment["COMP_WORDS"].split("\n") == whole.split("|")
    assert int(environment["COMP_CWORD"]) == len(whole.split("|")) - 1


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash is here")
def test_bash_itself_completes_once_it_is_installed(
    queue: str, way: str, daemon: Daemon, home: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "qmctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(QMCTL)} "$@"\n')
    program.chmod(0o755)
    environment = os.environ | home | {"QMCTL_CONNECT": daemon.unix}
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    words = ["qmctl", "--install-completion", "bash"]
    subprocess.run(words, env=environment, check=True, capture_output=True)
    script = f"""
        source ~/.bashrc
        COMP_WORDS=(qmctl put {queue} @); COMP_CWORD=3
        $(complete -p qmctl | sed 's/.*-F \\([^ ]*\\) .*/\\1/') qmctl
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"@{way}\n", "")


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_for_the_shell_is_shown(shell: str, home: dict[str, str]) -> None:
    environment = os.environ | home | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [*QMCTL, "--show-completion", shell], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_QMCTL_COMPLETE=complete_{shell}" in done.stdout


@pytest.mark.process
def test_columns_are_offered_to_lists(tab: Tab) -> None:
    nowhere = {"QMCTL_CONNECT": "unix:/nowhere/qmgrd.sock"}
    assert tab("queue", "ls", "--sort", "read", **nowhere) == ["ready"]
    assert tab("queue", "ls", "--columns", "queue,dep", **nowhere) == [
        "queue,depth",
        "queue,depth_max",
    ]
    assert "waiting" in tab("link", "ls", "--sort", "wait", **nowhere)
    assert tab("connection", "ls", "--sort", "soft", **nowhere) == ["software"]


@pytest.mark.long
@pytest.mark.process
def test_files_are_offered_where_one_is_meant_and_nowhere_else(
    tab: Tab, home: dict[str, str]
) -> None:
    nowhere = {"QMCTL_CONNECT": "unix:/nowhere/qmgrd.sock"}
    for words in (
        ["store", "verify"],
        ["put", "Q", "--file"],
        ["--data-dir"],
        ["snapshot", "create"],
        ["snapshot", "ls"],
    ):
        assert tab(*words, "/tm", **nowhere) == [FILES]
    for words in (["store", "verify"], ["put", "Q", "--file"]):
        fish = {"_QMCTL_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "is-args"}
        said = {"_TYPER_COMPLETE_ARGS": " ".join(["qmctl", *words, "/tm"])}
        assert asked(home | fish | said).returncode == 1
        zsh = asked(home | said | {"_QMCTL_COMPLETE": "complete_zsh"})
        assert zsh.stdout == "_files\n"
    for words in (["link", "show"], ["put", "Q", "--header"], ["get"]):
        assert tab(*words, "", **nowhere) == []
        said = nowhere | {"_TYPER_COMPLETE_ARGS": " ".join(["qmctl", *words, ""])}
        assert asked(home | said | {"_QMCTL_COMPLETE": "complete_zsh"}).stdout == ""


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash is here")
def test_bash_is_told_to_offer_files_by_the_script_alone(home: dict[str, str]) -> None:
    environment = os.environ | home | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    words = [*QMCTL, "--show-completion", "bash"]
    shown = subprocess.run(words, env=environment, capture_output=True, text=True).stdout
    script = f"""
        {shown}
        compopt() {{ echo compopt "$@"; }}
        env() {{ echo "$OFFERED"; }}
        OFFERED={FILES} ; _qmctl_completion qmctl; echo "${{#COMPREPLY[@]}}"
        OFFERED=ready; _qmctl_completion qmctl; echo "${{COMPREPLY[0]}}"
        complete -p qmctl
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (
        "compopt -o default\n0\nready\ncomplete -F _qmctl_completion qmctl\n",
        "",
    )


@pytest.mark.process
@pytest.mark.parametrize("at", ["x", "", "-1", "²"])
def test_place_that_is_no_number_is_no_bug(at: str, tab: Tab) -> None:
    tab("que", COMP_CWORD=at)  # The fixture asserts that no error occurs.


@pytest.mark.process
def test_roles_rights_and_kinds_are_offered(tab: Tab) -> None:
    assert tab("user", "create", "x", "--role", "p") == ["peer", "producer"]
    assert tab("grant", "create", "--role", "op") == ["operator"]
    assert tab("grant", "create", "pu") == ["put", "publish", "purge"]
    assert tab("grant", "create", "get,pu") == ["get,put", "get,publish", "get,purge"]
    assert tab("grant", "create", "put,get", "") == ["queue"]
    assert tab("grant", "create", "subscribe", "") == ["topic"]
    assert {"queue", "manager"} <= set(tab("grant", "create", "show", ""))


@pytest.mark.process
def test_requests_and_their_fields_are_offered(tab: Tab) -> None:
    assert tab("auth", "explain", "x", "QueueM") == ["QueueMove"]
    assert tab("auth", "explain", "x", "QueueMove", "") == ["queue=", "target="]
    assert tab("auth", "explain", "x", "QueueDelete", "p") == ["purge="]


@pytest.mark.process
def test_names_are_offered_to_a_user_that_logs_in(
    tab: Tab, own_daemon: Daemon, home: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "pw"
    file.write_text("secret")
    file.chmod(0o600)
    with connect(own_daemon.unix) as client:
        client.admin.user_create("alice", "secret", roles=["administrator"])
    where = {"QMCTL_CONNECT": own_daemon.tcp}
    login = {"QMGR_USER": "alice", "QMGR_PASSWORD_FILE": str(file)}
    options = ["--user", "alice", "--password-file", str(file)]
    assert tab("user", "show", "", **where) == []
    assert tab("user", "show", "", **where, **login) == ["alice"]
    assert tab(*options, "user", "show", "", **where) == ["alice"]
    assert tab("user", "show", *options, "", **where) == ["alice"]
    assert tab(*options, "grant", "create", "--user", "", **where) == ["alice"]
    with context_file.change(home) as contexts:
        contexts.addresses["here"] = own_daemon.tcp
        contexts.logins["here"] = context_file.KeptLogin("alice", str(file))
    assert tab("--context", "here", "user", "show", "") == ["alice"]
