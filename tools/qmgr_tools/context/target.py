"""Where a command connects to: the first that speaks, by ORDER.

An address is HOST:PORT, or unix:/PATH for the socket of a daemon on this machine. A data directory
holds listening.json, in which a running daemon says where it listens. A context is a named address.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qmgr_config.address import parse_address
from qmgr_tools.cli.failure import Exit, Failure, NotListening, usage
from qmgr_tools.context import file as context_file

ENVIRONMENT = "QMCTL_CONNECT"
CONTEXT_ENVIRONMENT = "QMCTL_CONTEXT"
DEFAULT = "127.0.0.1:7470"
LISTENING_FILE = "listening.json"
UNIX = "unix:"
ORDER = f"""\
1. --connect ADDRESS, --data-dir DIR or --context NAME (one of them), behind
   the command
2. the same before the command
3. {ENVIRONMENT}, an address
4. {CONTEXT_ENVIRONMENT}, the name of a context
5. the current context: what "qmctl context use" chose
6. {DEFAULT}"""


@dataclass(frozen=True, slots=True)
class Target:
    """An address, what named it, and the context that it is of, if any."""

    address: str
    source: str
    context: str = ""


def find(
    connect: str | None, data_dir: Path | None, context: str | None, environment: Mapping[str, str]
) -> Target:
    """Return what to connect to, by ORDER.

    Raises:
        Failure: USAGE, what was given is no address; NOT_FOUND, there is no such context;
            UNAVAILABLE, no daemon listens for data_dir; FAILED, a file cannot be read.
    """
    options = {"--connect": connect, "--data-dir": data_dir, "--context": context}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise usage(f"{' and '.join(given)} are given together", "they exclude each other")
    if connect is not None:
        return Target(_given(connect, "--connect", environment), "--connect")
    if data_dir is not None:
        return Target(of_data_dir(data_dir), "--data-dir")
    if context is not None:
        return _of_context(context, "--context", context_file.load(environment))
    if said := environment.get(ENVIRONMENT):
        return Target(_given(said, ENVIRONMENT, environment), ENVIRONMENT)
    contexts = context_file.load(environment)
    if said := environment.get(CONTEXT_ENVIRONMENT):
        return _of_context(said, CONTEXT_ENVIRONMENT, contexts)
    if contexts.current:
        return _of_context(contexts.current, "qmctl context use", contexts)
    return Target(DEFAULT, "the default")


def _of_context(name: str, source: str, contexts: context_file.Contexts) -> Target:
    return Target(checked(contexts.address(name), f"context {name}"), source, name)


def _given(text: str, source: str, environment: Mapping[str, str]) -> str:
    """Return *text* if it is an address; where it is the name of a context, the failure says so."""
    try:
        return checked(text, source)
    except Failure as failure:
        what, why, remedy = failure.parts
        if text in context_file.load(environment).addresses:
            remedy = f"a context? --context {text}"
        raise usage(what, why, remedy) from None


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
        start = f"start it with: qmgrd --name NAME --data-dir {shlex.quote(str(data_dir))}"
        raise NotListening(what, f"{path} does not exist", start) from None
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(Exit.FAILED, what, f"{path}: {error}", "say --connect") from None
    if not isinstance(addresses, list) or not all(isinstance(a, str) for a in addresses):
        raise Failure(Exit.FAILED, what, f"{path} is no list of addresses", "say --connect")
    if not addresses:
        raise NotListening(what, f"{path} names no address", "say --connect")
    try:
        return checked(min(addresses, key=lambda text: not text.startswith(UNIX)), str(path))
    except Failure as failure:
        raise Failure(Exit.FAILED, what, f"{path}: {failure.parts[1]}", "say --connect") from None
