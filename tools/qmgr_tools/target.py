"""Where a command connects to: what --connect, --data-dir or QMCTL_CONNECT say, else the default.

An address is HOST:PORT, or unix:/PATH for the socket of a daemon on this machine. A data directory
holds listening.json, in which a running daemon says where it listens.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from qmgr_config.address import parse_address
from qmgr_tools.failure import Exit, Failure, usage

ENVIRONMENT = "QMCTL_CONNECT"
DEFAULT = "127.0.0.1:7470"
LISTENING_FILE = "listening.json"
UNIX = "unix:"


def address(connect: str | None, data_dir: Path | None, environment: Mapping[str, str]) -> str:
    """Return the address to connect to: the first of --connect, --data-dir, the environment.

    Raises:
        Failure: USAGE, what was given is no address; UNAVAILABLE, no daemon listens for data_dir.
    """
    if connect is not None and data_dir is not None:
        raise usage("--connect and --data-dir are both given", "they exclude each other")
    if connect is not None:
        return checked(connect, "--connect")
    if data_dir is not None:
        return of_data_dir(data_dir)
    return checked(environment.get(ENVIRONMENT) or DEFAULT, ENVIRONMENT)


def checked(text: str, source: str) -> str:
    """Return *text* if it is an address.

    Raises:
        Failure: USAGE, with the *source* that said it.
    """
    if text.startswith(UNIX):
        if text.removeprefix(UNIX).startswith("/") and "\0" not in text:
            return text
        why = f"{text!r} names no absolute path"
    else:
        try:
            found = parse_address(text)
        except ValueError as error:
            why = str(error)
        else:
            if found.port:
                return str(found)
            why = f'"{text}" has the port 0'
    raise usage(f"{source} is no address", why, "say HOST:PORT or unix:/PATH")


def of_data_dir(data_dir: Path) -> str:
    """Return where the daemon of *data_dir* listens: its unix socket if it has one.

    Raises:
        Failure: UNAVAILABLE or FAILED, why that cannot be told.
    """
    path = data_dir / LISTENING_FILE
    what = f"cannot tell where the daemon of {data_dir} listens"
    try:
        addresses = json.loads(path.read_text())
    except FileNotFoundError:
        start = f"start it with: qmgrd --data-dir {data_dir}"
        raise Failure(Exit.UNAVAILABLE, what, f"there is no {path}", start) from None
    except (OSError, ValueError) as error:
        raise Failure(Exit.FAILED, what, f"{path}: {error}", "say --connect") from None
    if not isinstance(addresses, list) or not all(isinstance(a, str) for a in addresses):
        raise Failure(Exit.FAILED, what, f"{path} is no list of addresses", "say --connect")
    if not addresses:
        raise Failure(Exit.UNAVAILABLE, what, f"{path} names no address", "say --connect")
    found: str = min(addresses, key=lambda text: not text.startswith(UNIX))
    return found
