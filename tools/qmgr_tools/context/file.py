"""The named addresses of queue managers, in $XDG_CONFIG_HOME/qmctl/contexts.json.

{"current": "nyc", "contexts": {"nyc": {"address": "10.0.0.5:7470", "user": "alice",
                                        "password_file": "/home/alice/nyc.password"}, ...}}

A context may have no user, a user without a password file, or a token_file instead of a user. With
a keyring instead of a password_file, the password is in the keyring of the system, in the entry
with this service and the user.
Passwords and tokens are never in this file.
Only the owner can read the file (0600). A change locks the directory, writes a new file and renames
the new file. Readers therefore see either the old contents or the new contents.
"""

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from qmgr_tools.cli.failure import Exit, Failure

FILE_MAX_BYTES = 1 << 20
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700


@dataclass(frozen=True, slots=True)
class KeptLogin:
    """The user of a context, with the place of the password, if any; or a file with a token."""

    user: str
    password_file: str = ""
    token_file: str = ""
    keyring: str = ""  # the service of the entry in the keyring that has the password

    @property
    def how(self) -> str:
        """The words for the user or the token, after "logs in"."""
        return f"as {self.user}" if self.user else f"with the token in {self.token_file}"


NO_LOGIN = KeptLogin("")


@dataclass(frozen=True, slots=True)
class KeptTls:
    """How a context checks its queue manager, and its own certificate. "" means the default."""

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    server_name: str = ""
    fingerprint: str = ""


@dataclass(slots=True)
class Contexts:
    """The addresses by name, the current context, and the logins and the options of TLS by name.

    Invariant: current is "" or one of the names. Each name of a login or of TLS has an address.
    """

    addresses: dict[str, str] = field(default_factory=dict)
    current: str = ""
    logins: dict[str, KeptLogin] = field(default_factory=dict)
    tls: dict[str, KeptTls] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """Returns the address of the context *name*.

        Raises:
            Failure: NOT_FOUND if the context does not exist. The text lists the existing names.
        """
        if name in self.addresses:
            return self.addresses[name]
        known = ", ".join(sorted(self.addresses))
        why = f"existing contexts: {known}" if known else "no context is defined"
        remedy = "" if known else f"create it with: qmctl context create {name} HOST:PORT"
        raise Failure(Exit.NOT_FOUND, f"context {name} does not exist", why, remedy)


def path_of(environment: Mapping[str, str]) -> Path | None:
    """Returns the path of the file, or None if the home directory is unknown."""
    config = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):  # The XDG specification requires that relative paths be ignored.
        home = environment.get("HOME")
        if not home:
            return None
        config = os.path.join(home, ".config")
    return Path(config, "qmctl", "contexts.json")


def load(environment: Mapping[str, str]) -> Contexts:
    """Returns the contexts in the file. If the file does not exist, there are no contexts.

    Raises:
        Failure: FAILED if the file cannot be read or does not contain contexts.
    """
    path = path_of(environment)
    return Contexts() if path is None else _read(path)


@contextmanager
def change(environment: Mapping[str, str]) -> Iterator[Contexts]:
    """Yields the contexts, and writes them at the end of the block unless the block fails.

    Raises:
        Failure: FAILED if the file cannot be read or written.
    """
    path = path_of(environment)
    if path is None:
        raise homeless()
    real = Path(os.path.realpath(path))  # A symbolic link to the file is kept.
    try:
        real.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        directory = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        contexts = _read(real)
        yield contexts
        try:
            _write(real, contexts)
            os.fsync(directory)
        except OSError as error:
            raise unwritable(path, error) from None
    finally:
        os.close(directory)


def _read(path: Path) -> Contexts:
    try:
        found = json.loads(_text(path))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from None
    contexts = _decoded(found)
    if contexts is None:
        raise _unreadable(path, "the file does not contain contexts")
    return contexts


def _text(path: Path) -> str:
    """Returns the contents of a regular file of moderate size.

    Raises:
        OSError, ValueError: If the file is not regular, is too large, or cannot be read.
    """
    # Without O_NONBLOCK, opening a pipe would block.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("not a regular file")
        data = file.read(FILE_MAX_BYTES + 1)
    if len(data) > FILE_MAX_BYTES:
        raise ValueError(f"the file exceeds the limit of {FILE_MAX_BYTES} bytes")
    return data.decode()


def _decoded(found: Any) -> Contexts | None:
    try:
        addresses = {str(name): row["address"] for name, row in found["contexts"].items()}
        current = found.get("current", "")
        logins = {
            str(name): KeptLogin(*(row.get(one.name, "") for one in fields(KeptLogin)))
            for name, row in found["contexts"].items()
            if "user" in row or "token_file" in row
        }
        tls = {
            str(name): KeptTls(**row["tls"])
            for name, row in found["contexts"].items()
            if "tls" in row
        }
    except (AttributeError, KeyError, TypeError):
        return None
    parts = [*map(astuple, logins.values()), *map(astuple, tls.values())]
    kept = (text for part in parts for text in part)
    if not all(isinstance(text, str) for text in (*addresses.values(), *kept, current)):
        return None
    return Contexts(addresses, current if current in addresses else "", logins, tls)


def _write(path: Path, contexts: Contexts) -> None:
    rows: dict[str, dict[str, Any]] = {
        name: {"address": address} for name, address in sorted(contexts.addresses.items())
    }
    for name, tls in contexts.tls.items():
        rows[name]["tls"] = {key: value for key, value in asdict(tls).items() if value}
    for name, login in contexts.logins.items():
        rows[name].update({key: value for key, value in asdict(login).items() if value})
    text = json.dumps({"current": contexts.current, "contexts": rows}, indent=2)
    write_private(path, f"{text}\n")


def write_private(path: Path, text: str) -> None:
    """Replaces the file *path* by one with *text* that only its owner can read.

    Raises:
        OSError: If the file cannot be written.
    """
    # mkstemp creates the file with mode 0600.
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(number, FILE_MODE)
            os.fsync(number)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _unreadable(path: Path, why: str) -> Failure:
    remedy = f"correct or delete {path}, or use --connect"
    return Failure(Exit.FAILED, "cannot read the contexts", f"{path}: {why}", remedy)


def homeless() -> Failure:
    """Returns the failure of storing something in an unknown home directory."""
    why, remedy = "the home directory is unknown", "set HOME or XDG_CONFIG_HOME"
    return Failure(Exit.FAILED, "cannot store contexts", why, remedy)


def unwritable(path: Path, error: OSError) -> Failure:
    """Returns the failure of writing *path*."""
    return Failure(Exit.FAILED, f"cannot write {path}", error.strerror or str(error))
