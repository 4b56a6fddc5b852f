"""qmctl login: stores the user and the password of a context."""

import os
from dataclasses import replace
from pathlib import Path

from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage
from qmgr_tools.context import file as context_file
from qmgr_tools.context import password as passwords
from qmgr_tools.context import user as login_user

MORE_HELP = f"""A command logs in as the user in the first of these settings that is present:

\b
{login_user.ORDER}

If that setting has no password, the command asks for it on the terminal. The password itself is
never sent. Over the unix socket, root and the daemon's own user are administrators without a login.
"""


@command(MORE_HELP)
def login(call: Call) -> None:
    """Log in, and store the user and the password in the current context or in --context.

    The command asks for the user and the password, unless --user and --password-file are given. If
    the queue manager accepts them, later commands with this context use them.

    The password is stored next to the contexts, in a file that only you can read. With
    --password-file FILE, only the path of FILE is stored. With --password-file -, the password is
    read from standard input. To remove the login again, create the context again with --replace.

    \b
    JSON: an object with
      context, address   the context and its address
      user               the user
      password_file      the file with the password

    Examples:
      qmctl login
      qmctl login --context nyc --user alice
      pass show nyc | qmctl login --context nyc --user alice --password-file -
    """
    found = call.target()
    if not found.context:
        raise usage(
            "cannot log in",
            f"logins are stored in contexts, and {found.address} is from {found.source}",
            f"create a context with: qmctl context create NAME {found.address} --use",
        )
    doing = f"log in at {found.context}"
    user = call.user or login_user.ask_name(doing)
    path, password = call.password_file, ""
    if path is None:
        password = passwords.ask(doing, user, "use --password-file")
    elif path == passwords.STDIN:
        password = passwords.read(doing, path)
    with replace(call, login=login_user.fixed(user, password, path)).client(doing):
        pass  # The queue manager has accepted the login.
    with context_file.change(os.environ) as contexts:
        if contexts.addresses.get(found.context) != found.address:
            raise Failure(Exit.REFUSED, f"cannot {doing}", "the context was changed meanwhile")
        if password:
            kept = passwords.keep(found.context, password, os.environ)
        else:
            passwords.forget(found.context, os.environ)
            kept = Path(os.path.abspath(str(path)))
        contexts.logins[found.context] = context_file.KeptLogin(user, str(kept))
    row = {
        "context": found.context,
        "address": found.address,
        "user": user,
        "password_file": str(kept),
    }
    if call.is_json:
        output.document(row)
    else:
        output.say(f"context {found.context} logs in as {user}; the password is in {kept}")
