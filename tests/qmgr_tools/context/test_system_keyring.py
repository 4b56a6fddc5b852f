"""Passwords of contexts in the keyring, with a keyring in memory."""

import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.errors import KeyringLocked, PasswordDeleteError

from qmgr_client.blocking import connect
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.context import system_keyring
from tests.qmgr_tools.conftest import Daemon, Qmctl

PASSWORD = "correct horse"
ENTRY = "qmctl here", "alice"


class MemoryKeyring(KeyringBackend):
    """A keyring that may be locked."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked("Failed to unlock the collection!")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.entries.pop((service, username), None) is None:
            raise PasswordDeleteError("no such entry")


@pytest.fixture
def memory() -> Iterator[MemoryKeyring]:
    """The keyring of this process."""
    before, memory = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(memory)
    yield memory
    keyring.set_keyring(before)


def test_password_is_stored_read_and_deleted(memory: MemoryKeyring) -> None:
    system_keyring.keep("log in", *ENTRY, PASSWORD)
    assert memory.entries == {ENTRY: PASSWORD}
    assert system_keyring.read("log in", *ENTRY) == PASSWORD
    for _ in range(2):
        system_keyring.forget(*ENTRY)
        assert not memory.entries
    with pytest.raises(Failure, match='keyring has no password of alice in "qmctl here"'):
        system_keyring.read("log in", *ENTRY)


def test_locked_keyring_is_an_error(memory: MemoryKeyring) -> None:
    memory.is_locked = True
    with pytest.raises(Failure, match="no keyring is usable: Failed to unlock the collection!"):
        system_keyring.read("log in", *ENTRY)


@pytest.mark.parametrize(
    ("backend", "why"),
    [(fail, "no keyring is usable: No recommended backend was"), (null, "stores no passwords")],
)
def test_missing_backend_is_an_error(backend: object, why: str) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(backend.Keyring())  # type: ignore[attr-defined]
    try:
        with pytest.raises(Failure, match=why) as failed:
            system_keyring.keep("log in", *ENTRY, PASSWORD)
    finally:
        keyring.set_keyring(before)
    assert failed.value.exit_code is Exit.FAILED
    assert "unlock the keyring" in failed.value.parts[2]


def test_missing_package_is_an_error_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(Failure, match="the package keyring is not installed") as failed:
        system_keyring.read("log in", *ENTRY)
    assert "pip install 'qmgrd[keyring]'" in failed.value.parts[2]


@pytest.mark.process
def test_context_names_the_entry_and_its_commands_log_in(
    qmctl: Qmctl, own_daemon: Daemon, memory: MemoryKeyring, tmp_path: Path
) -> None:
    with connect(own_daemon.unix) as client:
        client.admin.user_create("alice", PASSWORD, roles=["administrator"])
        client.admin.user_create("bob", PASSWORD, roles=["administrator"])
    qmctl("context", "create", "here", own_daemon.tcp, "--use")
    login = ["login", "--keyring", "--password-file", "-", "--user"]
    words = f"{PASSWORD}\n".encode()
    assert qmctl(*login, "alice", stdin=b"wrong\n").code == 4
    assert not memory.entries
    row = qmctl(*login, "alice", "-o", "json", stdin=words).json
    assert (row["user"], row["password_file"], row["keyring"]) == ("alice", None, "qmctl here")
    assert memory.entries == {ENTRY: PASSWORD}
    kept = tmp_path / "config" / "qmctl"
    assert [path.name for path in kept.iterdir()] == ["contexts.json"]
    assert PASSWORD not in (kept / "contexts.json").read_text()
    assert '"keyring": "qmctl here"' in (kept / "contexts.json").read_text()
    assert qmctl("status").code == 0
    said = qmctl(*login, "bob", stdin=words).out
    assert said == 'context here logs in as bob; the password is in the keyring, in "qmctl here"\n'
    assert memory.entries == {("qmctl here", "bob"): PASSWORD}
    memory.is_locked = True
    locked = qmctl("status")
    assert (locked.code, "no keyring is usable" in locked.err) == (1, True)
    memory.is_locked = False
    assert qmctl("login", "--user", "bob", "--password-file", "-", stdin=words).code == 0
    assert (memory.entries, (kept / "here.password").exists()) == ({}, True)
    qmctl(*login, "alice", stdin=words)
    assert (memory.entries, (kept / "here.password").exists()) == ({ENTRY: PASSWORD}, False)
    assert qmctl("context", "delete", "here").code == 0
    assert not memory.entries
    token = qmctl("login", "--keyring", "--token-file", "x", "--context", "here")
    assert token.code != 0
