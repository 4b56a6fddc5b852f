"""A planted password appears in no output: logs, commands, lists of processes, descriptions."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from qmgr_client import aio
from qmgr_client.blocking import connect
from qmgr_client.credentials import Credentials
from qmgr_config.load import load
from qmgr_protocol.scram import ClientLogin
from qmgr_tables.stream.access import Access
from qmgr_tools.cli.command import Call
from qmgr_tools.context.user import arguments
from tests.qmgr_tools.conftest import QMCTL
from tests.secured import PASSWORD, Secured

pytestmark = pytest.mark.process

# Commands of an administrator. "{file}" is the file with the password.
COMMANDS = (
    "login --context qm --user admin --password-file {file}",
    "user create app --role producer --password-file {file}",
    "user alter app --password-file {file}",
    "user show app -o json",
    "user ls -o json",
    "queue create Q",
    "put Q x",
    "status -o json",
    "connection ls -o json",
    "access show -o json",
    "audit -o json",
    "events -o json",
    "dump",
    "link show OTHER -o json",
    "context ls -o json",
    "context show -o json",
    "--user admin --password-file /nowhere queue ls",
    "--user nobody --password-file {file} queue ls",
    "-c tls://admin:{secret}@nyc:1 queue ls",
    "user create admin --password-file {file}",
)
CRASH = """
from qmgr_client.aio import dialler
def crash(*_): raise RuntimeError("planted crash")
dialler.Dialler._dial = crash
from qmgr_tools.main import main
main()
"""


@contextmanager
def seen_processes() -> Iterator[list[str]]:
    """Yields the command lines of all processes that this block sees, again and again."""
    found: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    found.append(path.read_bytes().replace(b"\0", b" ").decode("latin-1"))
            stop.wait(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def test_planted_password_appears_nowhere(tmp_path: Path) -> None:
    manager = Secured(tmp_path)
    manager.more = (
        '[[link.logins]]\nmanager = "OTHER"\nuser = "admin"',
        f'password_file = "{manager.password_file}"',
    )
    environment = {"PATH": os.defpath, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environment |= {"QMCTL_PATIENCE": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    outputs: dict[str, str] = {}

    def run(words: str, program: tuple[str, ...] = QMCTL) -> int:
        text = words.format(file=manager.password_file, secret="x")
        given = [word.replace(":x@", f":{PASSWORD}@") for word in text.split()]
        done = subprocess.run(
            [*program, *given], env=environment, capture_output=True, text=True, check=False
        )
        outputs[words] = done.stdout + done.stderr
        return done.returncode

    try:
        manager.start()
        manager.create_users()
        with connect(manager.unix) as client:
            client.admin.link_create("OTHER", [manager.tls])
        ca = f"--ca-file {manager.certificates.ca}"
        assert run(f"context create qm {manager.tls} --use {ca}") == 0
        with seen_processes() as processes:
            codes = [run(words) for words in COMMANDS if "{secret}" not in words]
        run(next(words for words in COMMANDS if "{secret}" in words))  # The user typed it.
        run("queue ls", (sys.executable, "-c", CRASH))
    finally:
        manager.program.stop()
    outputs["log"] = manager.log.read_text()
    outputs["contexts"] = (tmp_path / "config/qmctl/contexts.json").read_text()
    outputs["processes"] = "\n".join(processes)
    assert codes[:14] == [0] * 14, outputs
    assert all(codes[-3:])
    assert "planted crash" in outputs["queue ls"]
    assert "OTHER" in outputs["log"]
    assert "user create app" in outputs["processes"]
    assert [where for where, text in outputs.items() if PASSWORD in text] == []


async def test_descriptions_of_objects_show_no_password(tmp_path: Path) -> None:
    login = Credentials("app", PASSWORD)
    objects = (
        login,
        login.login,
        Access(login),
        Call(login=login),
        ClientLogin("app", PASSWORD, "nonce"),
        connect("127.0.0.1:1", user="app", password=PASSWORD),
        aio.connect("127.0.0.1:1", user="app", password=PASSWORD),
    )
    for one in objects:
        assert PASSWORD not in f"{one!r} {one}"
        with pytest.raises(AttributeError) as caught:
            one.missing  # type: ignore[union-attr]  # noqa: B018
        assert PASSWORD not in str(caught.value)
    assert arguments(login)["password"] == PASSWORD  # The object has the password.
    file = tmp_path / "qmgrd.toml"
    (tmp_path / "password").write_text(PASSWORD)
    file.write_text(
        f'[[link.logins]]\nmanager = "NYC"\nuser = "app"\npassword_file = "{tmp_path}/password"'
    )
    assert PASSWORD not in repr(load(file))
