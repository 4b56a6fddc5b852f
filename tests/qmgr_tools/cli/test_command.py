import io
import socket
import threading
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from qmgr_client.credentials import Credentials
from qmgr_tools.cli.command import Call, command, confirm, group, shared_options
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.output import Format
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl


def test_what_is_said_behind_the_command_goes_over_what_is_said_before() -> None:
    before = Call("h:1", None, Format.JSON)
    assert Call().over(before) == before
    assert Call("h:2").over(before) == Call("h:2", None, Format.JSON)
    assert Call(None, Path("d"), Format.TABLE).over(before) == Call(None, Path("d"), Format.TABLE)
    assert Call(context="nyc").over(before) == Call(None, None, Format.JSON, "nyc")
    assert Call(watch_s=2.0).over(Call(context="nyc")) == Call(context="nyc", watch_s=2.0)


def test_held_call_keeps_its_login() -> None:
    held = Call("h:1", user="alice", password_file="/p").pinned("test")
    assert held.login == Credentials("alice", password_file="/p")
    assert held.credentials("test") is held.login
    assert Call(data_dir=Path("d"), user="a", password_file="/p").pinned("test").login is not None


def test_login_before_the_command_is_used_unless_one_follows() -> None:
    before = Call("h:1", user="alice", password_file="/a")
    assert Call("h:2").over(before) == Call("h:2", user="alice", password_file="/a")
    assert Call(user="bob").over(before) == Call("h:1", user="bob")


def test_held_call_keeps_its_address(
    qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QMCTL_CONTEXT", "nyc")
    qmctl("context", "create", "nyc", "h:1")
    held = [Call().pinned("test"), Call(context="nyc").pinned("test"), Call("h:1").pinned("test")]
    qmctl("context", "create", "nyc", "h:2", "--replace")
    assert [call.address() for call in held] == ["h:1", "h:1", "h:1"]
    assert Call(data_dir=tmp_path).pinned("test") == Call(data_dir=tmp_path)


def test_only_who_is_watched_or_connects_takes_the_options_for_it() -> None:
    app = typer.Typer(callback=shared_options, rich_markup_mode=None)
    seen: list[Call] = []
    command(watched=True)(lambda call: seen.append(call)).add_to(app, "see")
    command(local=True)(lambda call: seen.append(call)).add_to(app, "note")
    runner = CliRunner()
    assert runner.invoke(app, ["see", "--watch", "500ms"]).exit_code == 0
    assert runner.invoke(app, ["see", "--watch"]).exit_code == 0
    assert [call.watch_s for call in seen] == [0.5, 2.0]
    for words in (["note", "--watch"], ["note", "-c", "h:1"], ["note", "--context", "nyc"]):
        assert runner.invoke(app, words).exit_code == 2


def test_command_has_its_own_options_and_the_shared_ones() -> None:
    app = typer.Typer(callback=shared_options, rich_markup_mode=None)
    seen = []

    @command("More help.")
    def attempt(call: Call, name: str, loud: bool = False) -> None:
        """Attempt something."""
        seen.append((call, name, loud))

    attempt.add_to(app, "try")
    command()(lambda call: None).add_to(app, "other")
    runner = CliRunner()
    done = runner.invoke(app, ["-o", "json", "try", "N", "--loud", "--connect", "h:1"])
    assert (done.exit_code, done.output) == (0, "")
    assert seen == [(Call("h:1", None, Format.JSON), "N", True)]
    text = runner.invoke(app, ["try", "--help"]).output
    assert "Attempt something." in text
    assert "More help." in text


def test_group_begins_with_the_names_of_its_commands() -> None:
    app = typer.Typer(callback=shared_options, rich_markup_mode=None)
    seen: list[str] = []
    app.add_typer(
        group(
            "Things",
            "More.",
            ls=command()(lambda call: seen.append("ls")),
            rm=command()(lambda call: seen.append("rm")),
        ),
        name="thing",
    )
    runner = CliRunner()
    text = runner.invoke(app, ["thing", "--help"]).output
    assert "Things: ls, rm.\n\n  More.\n" in text
    assert "Things: ls, rm.\n" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["thing", "rm"]).exit_code == 0
    assert seen == ["rm"]


def test_yes_is_enough() -> None:
    confirm("Q", "purge queue Q", "5 messages will be lost", yes=True)


def test_without_a_terminal_yes_must_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(Failure, match="to confirm, add --yes") as refusal:
        confirm("Q", "purge queue Q", "5 messages will be lost", yes=False)
    assert refusal.value.exit_code is Exit.USAGE
    assert str(refusal.value).startswith("did not purge queue Q -- 5 messages will")


@pytest.mark.process
def test_name_is_to_be_typed_on_a_terminal(qm: Qmctl, queue: str, on_terminal: OnTerminal) -> None:
    qm("put", queue, "x")
    shown = on_terminal("queue", "purge", queue, typed=f"{queue}\n")
    assert shown.code == 0
    assert f"This will purge queue {queue}: 1 message will be lost." in shown.out
    assert f"Type {queue} to confirm (--yes skips this question)" in shown.out
    assert f"purged 1 message from queue {queue}" in shown.out


@pytest.mark.process
@pytest.mark.parametrize("typed", ["\n", "y\n", "q\n"])
def test_anything_else_typed_changes_nothing(
    typed: str, qm: Qmctl, queue: str, on_terminal: OnTerminal
) -> None:
    qm("put", queue, "x")
    shown = on_terminal("queue", "purge", queue, typed=typed)
    assert shown.code == 1
    assert (
        f"error: did not purge queue {queue}\n  you typed {typed.strip()!r}, not {queue}\n"
        in shown.out
    )
    assert qm("queue", "show", queue, "-o", "json").json["depth"] == 1


@pytest.mark.process
def test_end_of_input_at_the_question_changes_nothing(
    qm: Qmctl, queue: str, on_terminal: OnTerminal
) -> None:
    qm("put", queue, "x")
    shown = on_terminal("queue", "delete", queue, "--purge", typed="\x04")
    assert shown.code == 130
    assert qm("queue", "show", queue).code == 0


@pytest.mark.parametrize("address", ["unix:/nowhere/qmgrd.sock", "127.0.0.1:1"])
def test_no_daemon_is_told_with_the_address(address: str, qmctl: Qmctl) -> None:
    ended = qmctl("-c", address, "status")
    assert (ended.code, ended.out) == (5, "")
    assert ended.err.startswith(f"error: cannot show the status -- cannot connect to {address}")
    assert ended.err.count("\n") == 1
    assert " -- is qmgrd running" in ended.err


def test_who_is_no_queue_manager_is_told(qmctl: Qmctl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                client.recv(1 << 16)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        ended = qmctl("-c", address, "status")
        thread.join()
    assert (ended.code, ended.out) == (5, "")
    assert f"cannot connect to {address}: no queue manager answers: frame of " in ended.err
    assert " a qmgrd of this version" in ended.err


@pytest.mark.process
def test_daemon_that_stopped_is_told(own_daemon: Daemon, qmctl: Qmctl) -> None:
    where = ["--data-dir", str(own_daemon.data_dir)]
    assert qmctl(*where, "status").code == 0
    own_daemon.program.stop()
    assert qmctl(*where, "status").code == 5
    own_daemon.start()
    assert qmctl(*where, "status").code == 0
