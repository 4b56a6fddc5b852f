"""qmctl login: stores the user and the password, or the token file, of a context."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage
from qmgr_tools.context import file as context_file
from qmgr_tools.context import password as passwords
from qmgr_tools.context import system_keyring
from qmgr_tools.context import user as login_user
from qmgr_tools.context.target import Target

MORE_HELP = f"""A command logs in as the user in the first of these settings that is present:

\b
{login_user.ORDER}

If that setting has no password, the command asks for it on the terminal. The password itself is
never sent. Over the unix socket, root and the daemon's own user are administrators without a login.
"""


@command(MORE_HELP)
def login(
    call: Call,
    keyring: Annotated[
        bool,
        typer.Option(
            "--keyring", help="Store the password in the keyring of the system, not in a file."
        ),
    ] = False,
) -> None:
    """Log in, and store the user and the password in the current context or in --context.

    The command asks for the user and the password, unless --user and --password-file are given. If
    the queue manager accepts them, later commands with this context use them.

    The password is stored next to the contexts, in a file that only you can read. With
    --password-file FILE, only the path of FILE is stored. With --password-file -, the password is
    read from standard input. With --keyring, the password is stored in the keyring of the system,
    and the context stores only the name of the entry. To remove the login again, create the context
    again with --replace.

    Instead of a user, --token-file FILE stores the path of a file with a token (JWT).

    \b
    JSON: an object with
      context, address   the context and its address
      user               the user, or null for a token
      password_file      the file with the password, or null
      token_file         the file with the token, or null
      keyring            the service of the entry in the keyring, or null

    Examples:
      qmctl login
      qmctl login --context nyc --user alice
      qmctl login --context nyc --user alice --keyring
      pass show nyc | qmctl login --context nyc --user alice --password-file -
      qmctl login --context nyc --token-file /run/secrets/nyc.token
    """
    found = call.target()
    if not found.context:
        raise usage(
            "cannot log in",
            f"logins are stored in contexts, and {found.address} is from {found.source}",
            f"create a context with: qmctl context create NAME {found.address} --use",
        )
    doing = f"log in at {found.context}"
    if call.token_file is not None:
        if keyring:
            raise usage(f"cannot {doing}", "--keyring stores a password, and excludes --token-file")
        with call.client(doing):
            pass  # The queue manager has accepted the token.
        kept = context_file.KeptLogin("", "", os.path.abspath(call.token_file))
        _keep(call, found, kept, doing)
        return
    user = call.user or login_user.ask_name(doing)
    path, password = call.password_file, ""
    if path is None:
        password = passwords.ask(doing, user, "use --password-file")
    elif keyring or path == passwords.STDIN:
        password = passwords.read(doing, path)
    with replace(call, login=login_user.fixed(user, password, path)).client(doing):
        pass  # The queue manager has accepted the login.
    kept = context_file.KeptLogin(
        user,
        os.path.abspath(path) if path and not password else "",
        keyring=system_keyring.service_of(found.context) if keyring else "",
    )
    _keep(call, found, kept, doing, password)


def _keep(
    call: Call, found: Target, kept: context_file.KeptLogin, doing: str, password: str = ""
) -> None:
    """Stores the login of a context, with the *password* if it has no own file, and shows it."""
    with context_file.change(os.environ) as contexts:
        if contexts.addresses.get(found.context) != found.address:
            raise Failure(Exit.REFUSED, f"cannot {doing}", "the context was changed meanwhile")
        if kept.keyring:
            system_keyring.keep(doing, kept.keyring, kept.user, password)
        elif password:
            path = str(passwords.keep(found.context, password, os.environ))
            kept = replace(kept, password_file=path)
        passwords.forget(found.context, os.environ, contexts.logins.get(found.context), kept)
        contexts.logins[found.context] = kept
    row = {
        "context": found.context,
        "address": found.address,
        "user": kept.user or None,
        "password_file": kept.password_file or None,
        "token_file": kept.token_file or None,
        "keyring": kept.keyring or None,
    }
    if call.is_json:
        output.document(row)
    elif kept.token_file:
        output.say(f"context {found.context} logs in with the token in {kept.token_file}")
    else:
        place = f'the keyring, in "{kept.keyring}"' if kept.keyring else kept.password_file
        where = f"the password is in {place}"
        output.say(f"context {found.context} logs in as {kept.user}; {where}")
