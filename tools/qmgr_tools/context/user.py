"""The user as which a command logs in: the first setting in ORDER that is present."""

import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import typer

from qmgr_tools.cli.failure import usage
from qmgr_tools.cli.output import note
from qmgr_tools.context import password as passwords
from qmgr_tools.context import system_keyring
from qmgr_tools.context.file import KeptLogin

if TYPE_CHECKING:
    from qmgr_client.credentials import Credentials, Login

REMEDY = (
    "use --password-file, or store the password in a context: qmctl context create NAME ADDRESS, "
    "then qmctl login --context NAME"
)
ORDER = """\
1. --user NAME and --password-file FILE, or --token-file FILE (a file with a
   token), after the command or before it
2. the login of the context that names the address, see "qmctl login --help"
3. the user in the address: tls:NAME@HOST:PORT
4. the environment variable QMGR_USER, with QMGR_PASSWORD or
   QMGR_PASSWORD_FILE (a file with the password); or QMGR_TOKEN_FILE or
   QMGR_TOKEN (a token)
5. none: the command does not log in"""

_note_once = cache(note)


class LoginArguments(TypedDict, total=False):
    """The arguments of connect() for a login."""

    user: str
    password: str
    password_file: str
    token: str
    token_file: str


class Given(NamedTuple):
    """The options of a login. None means not given."""

    user: str | None = None  # --user
    password_file: str | None = None  # --password-file
    token_file: str | None = None  # --token-file


def note_ignored(given: Given, kept: KeptLogin | None, environment: Mapping[str, str]) -> None:
    """Notes, once in a process, that *kept* is used instead of another user in QMGR_USER."""
    named = environment.get("QMGR_USER", "")
    if kept is None or named in ("", kept.user) or given.user or given.token_file:
        return
    used = f"as {kept.user}" if kept.user else "with a token"
    _note_once(
        f"QMGR_USER={named} is ignored, because the context or the address has a login: the "
        f"command logs in {used}; to log in as {named}: --user {named}"
    )


def find(
    doing: str,
    given: Given,
    kept: KeptLogin | None,
    environment: Mapping[str, str],
    *,
    asks: bool = True,
) -> "Login | None":
    """Returns the user and the password, or the token, according to ORDER, or None.

    If the setting that names the user has no password, a later setting for the same user may have
    it. Otherwise, the user is asked for the password.

    Args:
        doing: The task, for failures.
        given: The options of the login.
        kept: The login of the context that names the address, or the user in the address.
        environment: The environment of the process.
        asks: Whether the user may be asked for the password.

    Raises:
        Failure: USAGE if a password has no user, both a password and a token are given, or no
            password is known and there is no terminal.
    """
    from qmgr_client import credentials  # takes 60 ms

    what = f"cannot {doing}"
    token = _token(what, given, kept, environment)
    if token is not None:
        return token
    user, password_file, _ = given
    named = environment.get(credentials.USER, "")
    name = user or (kept.user if kept is not None else "") or named
    if user == "" or (password_file is not None and not name):
        raise usage(what, "--password-file is given without a user", "add --user NAME")
    if password_file is not None:
        return credentials.Credentials(name, password_file=password_file)
    if kept is not None and kept.user == name and kept.password_file:
        return credentials.Credentials(name, password_file=kept.password_file)
    if kept is not None and kept.user == name and kept.keyring:
        return credentials.Credentials(name, system_keyring.read(doing, kept.keyring, name))
    keys = credentials.PASSWORD, credentials.PASSWORD_FILE
    found = {key: environment.get(key, "") for key in keys}
    if any(found.values()) and named in ("", name):
        try:
            return credentials.credentials(environment={credentials.USER: name, **found})
        except ValueError as error:
            raise usage(what, str(error), "correct the environment, or use --user") from None
    if not name:
        return None
    if not asks:
        raise usage(what, f"the password of {name} is required", REMEDY)
    return credentials.Credentials(name, passwords.ask(doing, name, REMEDY))


def _token(
    what: str, given: Given, kept: KeptLogin | None, environment: Mapping[str, str]
) -> "Login | None":
    """Returns the token of the first setting in ORDER, or None if that setting has no token."""
    from qmgr_client import credentials

    user, password_file, token_file = given
    is_by_password = user is not None or password_file is not None
    if token_file is not None and (is_by_password or not token_file):
        raise usage(what, "--token-file needs a file, and excludes --user and --password-file")
    if token_file is not None or is_by_password or kept is not None:
        path = token_file or ("" if is_by_password or kept is None else kept.token_file)
        return credentials.TokenCredentials("", path) if path else None
    try:
        return credentials.token_credentials(environment=environment)
    except ValueError as error:
        raise usage(what, str(error), "correct the environment, or use --token-file") from None


def arguments(login: "Login | None") -> LoginArguments:
    """Returns the arguments of connect() for a login."""
    from qmgr_client.credentials import TokenCredentials

    if login is None:
        return {}
    if isinstance(login, TokenCredentials):
        return {"token": login.token, "token_file": login.token_file}
    return {"user": login.user, "password": login.password, "password_file": login.password_file}


def fixed(user: str, password: str, password_file: str | None) -> "Credentials":
    """Returns the login of *user* with the password, or with the file if *password* is empty."""
    from qmgr_client.credentials import Credentials  # takes 60 ms

    return Credentials(user, password, "" if password else password_file or "")


def ask_name(doing: str) -> str:
    """Asks for the name of the user.

    Raises:
        Failure: USAGE if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise usage(f"cannot {doing}", "the user is required", "add --user NAME")
    found: str = typer.prompt("User", err=True)
    return found
