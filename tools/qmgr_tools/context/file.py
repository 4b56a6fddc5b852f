"""The named addresses of queue managers, in $XDG_CONFIG_HOME/qmctl/contexts.json.

{"current": "nyc", "contexts": {"nyc": {"address": "10.0.0.5:7470"}, ...}}

The file is its owner's alone (0600). A change takes the lock of its directory, writes a new file
beside it and renames that, so that who reads sees the old one or the new one.
"""

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qmgr_tools.cli.failure import Exit, Failure

FILE_MAX_BYTES = 1 << 20
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700


@dataclass(slots=True)
class Contexts:
    """Addresses by name, and which of them is current.

    Invariant: current is "" or one of the names.
    """

    addresses: dict[str, str] = field(default_factory=dict)
    current: str = ""

    def address(self, name: str) -> str:
        """Return the address of the context *name*.

        Raises:
            Failure: NOT_FOUND, with the names that there are.
        """
        if name in self.addresses:
            return self.addresses[name]
        known = ", ".join(sorted(self.addresses))
        why = f"the known ones are {known}" if known else "none is defined yet"
        remedy = "" if known else f"make it with: qmctl context create {name} HOST:PORT"
        raise Failure(Exit.NOT_FOUND, f"there is no context {name}", why, remedy)


def path_of(environment: Mapping[str, str]) -> Path | None:
    """Return where the file is to lie; None where no home is known."""
    config = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):  # The XDG specification has a relative one ignored.
        home = environment.get("HOME")
        if not home:
            return None
        config = os.path.join(home, ".config")
    return Path(config, "qmctl", "contexts.json")


def load(environment: Mapping[str, str]) -> Contexts:
    """Return the contexts in the file; none where there is no file.

    Raises:
        Failure: FAILED, it cannot be read or is not what this wrote.
    """
    path = path_of(environment)
    return Contexts() if path is None else _read(path)


@contextmanager
def change(environment: Mapping[str, str]) -> Iterator[Contexts]:
    """Yield the contexts, and write them back at the end of the block, unless it fails.

    Raises:
        Failure: FAILED, the file cannot be read or written.
    """
    path = path_of(environment)
    if path is None:
        remedy = "set HOME or XDG_CONFIG_HOME"
        raise Failure(Exit.FAILED, "cannot keep contexts", "no home directory is known", remedy)
    real = Path(os.path.realpath(path))  # A link to it stays one.
    try:
        real.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        directory = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        contexts = _read(real)
        yield contexts
        try:
            _write(real, contexts)
            os.fsync(directory)
        except OSError as error:
            raise _unwritable(path, error) from None
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
        raise _unreadable(path, "it does not hold contexts")
    return contexts


def _text(path: Path) -> str:
    """Return what is in a file, which is neither a pipe nor a device, and not huge.

    Raises:
        OSError, ValueError: it is none, or cannot be read.
    """
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # A pipe would hang.
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("it is no file")
        data = file.read(FILE_MAX_BYTES + 1)
    if len(data) > FILE_MAX_BYTES:
        raise ValueError(f"it is over {FILE_MAX_BYTES} bytes long")
    return data.decode()


def _decoded(found: Any) -> Contexts | None:
    try:
        addresses = {str(name): row["address"] for name, row in found["contexts"].items()}
        current = found.get("current", "")
    except (AttributeError, KeyError, TypeError):
        return None
    if not all(isinstance(text, str) for text in (*addresses.values(), current)):
        return None
    return Contexts(addresses, current if current in addresses else "")


def _write(path: Path, contexts: Contexts) -> None:
    rows = {name: {"address": address} for name, address in sorted(contexts.addresses.items())}
    text = json.dumps({"current": contexts.current, "contexts": rows}, indent=2)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")  # is 0600
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fchmod(number, FILE_MODE)
            os.fsync(number)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _unreadable(path: Path, why: str) -> Failure:
    remedy = f"mend or remove {path}, or say --connect"
    return Failure(Exit.FAILED, "cannot read the contexts", f"{path}: {why}", remedy)


def _unwritable(path: Path, error: OSError) -> Failure:
    return Failure(Exit.FAILED, f"cannot write {path}", error.strerror or str(error))
