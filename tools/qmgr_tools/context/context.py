"""qmctl context: create, ls, use, show, delete."""

import os
from typing import Annotated

import typer

from qmgr_protocol.name import NAME_MAX, is_name
from qmgr_tools.cli import completion, dry_run, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage
from qmgr_tools.context import file as context_file
from qmgr_tools.context import password as passwords
from qmgr_tools.context import tls_options
from qmgr_tools.context.target import (
    CONTEXT_ENVIRONMENT,
    DEFAULT,
    ENVIRONMENT,
    ORDER,
    checked,
    split_user,
)

MORE_HELP = f"""A command connects to the address in the first of these settings that is present:

\b
{ORDER}

Contexts are stored in $XDG_CONFIG_HOME/qmctl/contexts.json. The default directory is ~/.config.
"""

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=completion.contexts,
        help=f"A name of 1 to {NAME_MAX} characters: A-Z a-z 0-9 . _ -",
    ),
]
COLUMNS = (
    output.text("mark", "CURRENT"),
    output.text("context"),
    output.text("address"),
    output.text("user"),
)
FACTS = (
    output.text("context"),
    output.text("address"),
    output.text("source", "chosen by"),
    output.text("user"),
)


@command(local=True)
def create(
    call: Call,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help=f"A name of 1 to {NAME_MAX} characters: A-Z a-z 0-9 . _ -",
        ),
    ],
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", show_default=False, help="HOST:PORT, tls:HOST:PORT or unix:/PATH."
        ),
    ],
    use: Annotated[bool, typer.Option("--use", help="Make this the current context.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing context and its login.")
    ] = False,
    user: Annotated[
        str, typer.Option(metavar="NAME", show_default=False, help="The user to log in as.")
    ] = "",
    password_file: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            show_default=False,
            autocompletion=completion.files,
            help="A file with the password of --user.",
        ),
    ] = "",
    token_file: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            show_default=False,
            autocompletion=completion.files,
            help="A file with a token (JWT) to log in with, instead of --user.",
        ),
    ] = "",
    ca_file: tls_options.CaFile = None,
    certificate_file: tls_options.CertificateFile = None,
    key_file: tls_options.KeyFile = None,
    server_name: tls_options.ServerName = "",
    fingerprint: tls_options.Fingerprint = "",
) -> None:
    """Create a context: a name for an address, the user to log in as, and the options of TLS.

    To store a password as well: qmctl login --context NAME

    JSON: an object with context, address, user (or null), current (true or false).

    Examples:
      qmctl context create nyc 127.0.0.1:7470 --use
      qmctl context create here unix:/var/lib/qmgrd/qmgrd.sock
      qmctl context create nyc tls:10.0.0.5:7471 --user alice --ca-file ca.crt
    """
    if not is_name(name):
        why = f"a name has 1 to {NAME_MAX} characters: A-Z a-z 0-9 . _ -"
        raise usage(f"cannot create context {name[:80]!r}", why)
    named, address = split_user(checked(address, "ADDRESS"))
    login = _login(name, user or named, password_file, token_file)
    tls = tls_options.kept(address, ca_file, certificate_file, key_file, server_name, fingerprint)
    with context_file.change(os.environ) as contexts:
        before = contexts.addresses.get(name, address)
        if before != address and not replace:
            raise Failure(
                Exit.REFUSED,
                f"cannot create context {name}",
                f"it already exists, with address {before}",
                "use --replace, or choose another name",
            )
        kept = contexts.logins.get(name)
        if kept is not None and login not in (None, kept) and not replace:
            raise Failure(
                Exit.REFUSED,
                f"cannot create context {name}",
                f"it already exists, and logs in {kept.how}",
                "use --replace, or choose another name",
            )
        if login is not None:
            contexts.logins[name] = login
        elif replace:
            contexts.logins.pop(name, None)
        if tls is not None:
            contexts.tls[name] = tls
        elif replace:
            contexts.tls.pop(name, None)
        if replace:
            passwords.forget(name, os.environ, kept)
        contexts.addresses[name] = address
        contexts.current = name if use else contexts.current
    row = _row(name, contexts)
    is_current = row["current"]
    words = f"context {name} has address {address}"
    words += f" and user {row['user']}" if row["user"] else ""
    hint = "" if is_current else f"; to make it the current context: qmctl context use {name}"
    words += " and is the current context" if use else hint
    _show(call, row, words)


@command(local=True)
def ls(call: Call) -> None:
    """List the contexts; * marks the current one.

    JSON: an array of objects with context, address, user (or null), current (true or false).

    Examples:
      qmctl context ls
      qmctl context ls -o json
    """
    contexts = context_file.load(os.environ)
    rows = [_row(name, contexts) for name in sorted(contexts.addresses)]
    if call.is_json:
        output.document(rows)
        return
    output.table(COLUMNS, [row | {"mark": "*" if row["current"] else ""} for row in rows])
    for variable in (ENVIRONMENT, CONTEXT_ENVIRONMENT):
        if value := os.environ.get(variable):
            output.note(f"{variable}={value} overrides the current context")
            break


@command(local=True)
def use(
    call: Call,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            autocompletion=completion.contexts,
            help="An existing context.",
        ),
    ] = None,
    none: Annotated[
        bool, typer.Option("--none", help=f"Use no context. The default is {DEFAULT} again.")
    ] = False,
) -> None:
    """Make a context the current one: later commands connect to its address.

    JSON: an object with context, address, user, current; with --none they are null, and current is
    false.

    Examples:
      qmctl context use nyc
      qmctl context use --none
    """
    if none == (name is not None):
        raise usage("cannot select a context", "exactly one of NAME and --none is required")
    with context_file.change(os.environ) as contexts:
        address = None if name is None else contexts.address(name)
        contexts.current = name or ""
        row = _row(name, contexts)
    words = f"the current context is {name}: {address}" if name else "there is no current context"
    _show(call, row, words)


@command()
def show(call: Call) -> None:
    """Show the address to which commands connect, its source, and the user of its context.

    This command does not connect.

    \b
    JSON: an object with context (or null), address, source (the setting that is
    used), user (or null).

    Examples:
      qmctl context show
      qmctl context show --context nyc
    """
    found = call.target()
    row = {
        "context": found.context or None,
        "address": found.address,
        "source": found.source,
        "user": (found.login.user or None) if found.login is not None else None,
    }
    if call.is_json:
        output.document(row)
    else:
        output.facts(FACTS, row)


@command(local=True)
def delete(call: Call, name: Name, dry: dry_run.DryRun = False) -> None:
    """Delete a context, with its stored password. The queue manager is not affected.

    JSON: an object with context, address, user (or null), current (whether it was the current one).

    Examples:
      qmctl context delete nyc
      qmctl context delete nyc --dry-run
    """
    if dry:
        contexts = context_file.load(os.environ)
        address = contexts.address(name)
        dry_run.show(call, _row(name, contexts), f"delete context {name}, with address {address}")
        return
    with context_file.change(os.environ) as contexts:
        address = contexts.address(name)
        row = _row(name, contexts)
        del contexts.addresses[name]
        login = contexts.logins.pop(name, None)
        contexts.tls.pop(name, None)
        contexts.current = "" if row["current"] else contexts.current
        passwords.forget(name, os.environ, login)
    words = f"deleted context {name}, with address {address}"
    words += "; there is no current context" if row["current"] else ""
    _show(call, row, words)


def _login(
    name: str, user: str, password_file: str, token_file: str
) -> context_file.KeptLogin | None:
    """Returns the login of the new context *name*, or None.

    Raises:
        Failure: USAGE if the options do not fit together.
    """
    if password_file and not user:
        raise usage(f"cannot create context {name}", "--password-file is given without --user")
    if token_file and user:
        raise usage(f"cannot create context {name}", "--token-file excludes --user")
    if not user and not token_file:
        return None
    return context_file.KeptLogin(user, _absolute(password_file), _absolute(token_file))


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path)) if path else ""


def _row(name: str | None, contexts: context_file.Contexts) -> dict[str, object]:
    """Returns the JSON object of the context *name*, or of no context."""
    login = contexts.logins.get(name) if name is not None else None
    return {
        "context": name,
        "address": contexts.addresses[name] if name is not None else None,
        "user": (login.user or None) if login is not None else None,
        "current": name is not None and name == contexts.current,
    }


def _show(call: Call, row: dict[str, object], words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)
