"""Passwords: from a terminal, a file or standard input, and the files in which contexts keep them.

A password is never an argument of a command, because other users of the host can read arguments.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import typer

from qmgr_tools.cli.failure import Exit, Failure, usage
from qmgr_tools.context import file as context_file
from qmgr_tools.context import system_keyring

STDIN = "-"


def ask(doing: str, user: str, remedy: str, *, is_new: bool = False) -> str:
    """Asks for the password of *user* without echo; twice if the password is new.

    Raises:
        Failure: USAGE, with *remedy*, if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        why = f"the password of {user} is required, and there is no terminal to ask for it"
        raise usage(f"cannot {doing}", why, remedy)
    words = f"{'New password' if is_new else 'Password'} of {user}"
    found: str = typer.prompt(words, hide_input=True, confirmation_prompt=is_new, err=True)
    return found


def read(doing: str, source: str) -> str:
    """Returns the password in the file *source*, or on standard input if it is "-".

    Raises:
        Failure: FAILED if the password cannot be read, or is empty or too long.
    """
    from qmgr_client import credentials  # takes 60 ms

    try:
        if source == STDIN:
            return credentials.checked(sys.stdin.read(), "standard input")
        return credentials.read_file(source)
    except ValueError as error:
        raise Failure(Exit.FAILED, f"cannot {doing}", str(error)) from None


def path_of(context: str, environment: Mapping[str, str]) -> Path:
    """Returns the file in which "qmctl login" keeps the password of a *context*.

    Raises:
        Failure: FAILED if the home directory is unknown.
    """
    contexts = context_file.path_of(environment)
    if contexts is None:
        raise context_file.homeless()
    return contexts.with_name(f"{context}.password")


def keep(context: str, password: str, environment: Mapping[str, str]) -> Path:
    """Stores the password of a *context*, and returns the file. Only its owner can read it.

    Raises:
        Failure: FAILED if the file cannot be written.
    """
    path = path_of(context, environment)
    try:
        context_file.write_private(path, f"{password}\n")
    except OSError as error:
        raise context_file.unwritable(path, error) from None
    return path


def forget(
    context: str,
    environment: Mapping[str, str],
    login: context_file.KeptLogin | None,
    later: context_file.KeptLogin = context_file.NO_LOGIN,
) -> None:
    """Deletes the stored passwords of a *context*, if there are any.

    Args:
        context: The name of the context.
        environment: The environment of the process.
        login: The login of the context until now, or None.
        later: The login that the context keeps. Its password is not deleted.

    Raises:
        Failure: FAILED if the file or the entry in the keyring cannot be deleted.
    """
    kept_entry = later.keyring, later.user
    if login is not None and login.keyring and (login.keyring, login.user) != kept_entry:
        system_keyring.forget(login.keyring, login.user)
    path = path_of(context, environment)
    if later.password_file == str(path):
        return
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
    except OSError as error:
        raise context_file.unwritable(path, error) from None
