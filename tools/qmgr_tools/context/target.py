"""The address to which a command connects: the first setting in ORDER that is present.

An address is HOST:PORT, tls:HOST:PORT, or unix:/PATH for the socket of a daemon on this machine. A
host may follow a user, and "//" the scheme, as in tls://alice@nyc.example.org:7471. A running
daemon writes its addresses to listening.json in the data directory. A context is a named address.
A queue manager with standbys has a list of addresses with commas.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qmgr_config.address import parse_address
from qmgr_protocol.name import is_name
from qmgr_tools.cli.failure import Exit, Failure, NotListening, usage
from qmgr_tools.context import file as context_file

ENVIRONMENT = "QMCTL_CONNECT"
CONTEXT_ENVIRONMENT = "QMCTL_CONTEXT"
DEFAULT = "127.0.0.1:7470"
LISTENING_FILE = "listening.json"
UNIX, TLS, TCP = "unix:", "tls:", "tcp:"
USE_CONNECT = "use --connect"
ORDER = f"""\
1. --connect ADDRESS, --data-dir DIR or --context NAME (one of them), after
   the command
2. the same options before the command
3. the environment variable {ENVIRONMENT}, an address
4. the environment variable {CONTEXT_ENVIRONMENT}, the name of a context
5. the current context, see "qmctl context use"
6. {DEFAULT}"""


@dataclass(frozen=True, slots=True)
class Target:
    """An address, the setting that contains it, and the context with its login and TLS, if any."""

    address: str
    source: str
    context: str = ""
    login: context_file.KeptLogin | None = None
    tls: context_file.KeptTls | None = None


def find(
    connect: str | None, data_dir: Path | None, context: str | None, environment: Mapping[str, str]
) -> Target:
    """Returns the address to connect to, according to ORDER.

    Raises:
        Failure: USAGE if an address is invalid, NOT_FOUND if the context does not exist,
            UNAVAILABLE if no daemon runs on data_dir, FAILED if a file cannot be read.
    """
    options = {"--connect": connect, "--data-dir": data_dir, "--context": context}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise usage(f"conflicting options {' and '.join(given)}", "they exclude each other")
    if connect is not None:
        return _at(_given(connect, "--connect", environment), "--connect")
    if data_dir is not None:
        return Target(of_data_dir(data_dir), "--data-dir")
    if context is not None:
        return _of_context(context, "--context", context_file.load(environment))
    if address := environment.get(ENVIRONMENT):
        return _at(_given(address, ENVIRONMENT, environment), ENVIRONMENT)
    contexts = context_file.load(environment)
    if name := environment.get(CONTEXT_ENVIRONMENT):
        return _of_context(name, CONTEXT_ENVIRONMENT, contexts)
    if contexts.current:
        return _of_context(contexts.current, "qmctl context use", contexts)
    return Target(DEFAULT, "the default")


def _at(text: str, source: str) -> Target:
    """Returns the target of an address that is not from a context, with the user in it."""
    user, address = split_user(text)
    return Target(address, source, login=context_file.KeptLogin(user) if user else None)


def _of_context(name: str, source: str, contexts: context_file.Contexts) -> Target:
    address = checked(contexts.address(name), f"context {name}")
    return Target(address, source, name, contexts.logins.get(name), contexts.tls.get(name))


def _given(text: str, source: str, environment: Mapping[str, str]) -> str:
    """Returns *text* if it is an address. For a context, the failure suggests --context."""
    try:
        return checked(text, source)
    except Failure as failure:
        what, why, remedy = failure.parts
        if text in context_file.load(environment).addresses:
            remedy = f"if you mean the context: --context {text}"
        raise usage(what, why, remedy) from None


def split_user(address: str) -> tuple[str, str]:
    """Returns the user in an address that is valid, or "", and the address without the user.

    The address may be a list with commas.
    """
    from qmgr_client.address import split

    each = [_split_user(one) for one in split(address)]
    return each[0][0], ",".join(one for _, one in each)


def _split_user(address: str) -> tuple[str, str]:
    if address.startswith(UNIX):
        return "", address
    scheme = TLS if address.startswith(TLS) else ""
    user, _, host = address.removeprefix(scheme).rpartition("@")
    return user, f"{scheme}{host}"


def checked(text: str, source: str) -> str:
    """Returns *text* if it is an address, without the parts of a URL that have no effect.

    Text with commas may be a list of addresses.

    Raises:
        Failure: USAGE if *text* is not a valid address. The failure names the *source*.
    """
    from qmgr_client.address import parse_list, split
    from qmgr_client.errors import AddressInvalid

    if len(parts := split(text)) == 1:
        return _checked(text, source)
    try:
        parse_list(text)
    except AddressInvalid as error:
        what = f"{source} is not a valid list of addresses"
        raise usage(what, f"{error.address}: {error.why}") from None
    return ",".join(_checked(part, source) for part in parts)


def _checked(text: str, source: str) -> str:
    from qmgr_client.address import NO_PASSWORD, has_password

    if text.startswith(UNIX):
        if text.removeprefix(UNIX).startswith("/") and "\0" not in text:
            return text
        why = f"{text!r} is not an absolute path"
    elif has_password(text):
        raise usage(f"{source} is not a valid address", NO_PASSWORD)
    else:
        scheme = next((one for one in (TLS, TCP) if text.startswith(one)), "")
        rest = text.removeprefix(scheme)
        if scheme and rest.startswith("//"):
            rest = rest.removeprefix("//").removesuffix("/")
        user, at, host = rest.rpartition("@")
        try:
            found = parse_address(host)
        except ValueError as error:
            why = str(error)
        else:
            if found.port and (not at or is_name(user)):
                return f"{TLS if scheme == TLS else ''}{user}{at}{found}"
            why = f'"{text}" has the port 0' if not found.port else f"{user!r} is not a valid user"
    raise usage(
        f"{source} is not a valid address", why, "use HOST:PORT, tls:HOST:PORT or unix:/PATH"
    )


def of_data_dir(data_dir: Path) -> str:
    """Returns the address of the daemon of *data_dir*, preferably a Unix socket.

    Raises:
        Failure: UNAVAILABLE if no daemon listens, FAILED if the address cannot be read.
    """
    path = data_dir / LISTENING_FILE
    what = f"cannot find the address of the daemon of {data_dir}"
    try:
        addresses = json.loads(path.read_text())
    except FileNotFoundError:
        start = f"start it with: qmgrd --name NAME --data-dir {shlex.quote(str(data_dir))}"
        raise NotListening(what, f"{path} does not exist", start) from None
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(Exit.FAILED, what, f"{path}: {error}", USE_CONNECT) from None
    if not isinstance(addresses, list) or not all(isinstance(a, str) for a in addresses):
        raise Failure(Exit.FAILED, what, f"{path} is not a list of addresses", USE_CONNECT)
    if not addresses:
        raise NotListening(what, f"{path} contains no address", USE_CONNECT)
    try:
        return checked(min(addresses, key=lambda text: not text.startswith(UNIX)), str(path))
    except Failure as failure:
        raise Failure(Exit.FAILED, what, f"{path}: {failure.parts[1]}", USE_CONNECT) from None
