"""The new password of a user: asked for, read from a file, or generated."""

import secrets
from typing import Annotated

import typer

from qmgr_tools.cli import completion
from qmgr_tools.cli.failure import usage
from qmgr_tools.context import password as passwords

GENERATED_BYTES = 18
PANEL = "The password"
REMEDY = "use --password-file FILE, --generate or --no-password"

File = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        rich_help_panel=PANEL,
        help="Read the new password from FILE; - is standard input.",
    ),
]
Generate = Annotated[
    bool,
    typer.Option(
        "--generate", rich_help_panel=PANEL, help="Make a random password, and show it once."
    ),
]


def check(doing: str, **options: object) -> None:
    """Raises a Failure with USAGE if more than one of the *options* is given."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if len(given) > 1:
        raise usage(f"cannot {doing}", f"{' and '.join(given)} exclude each other")


def find(doing: str, user: str, file: str | None, *, generate: bool) -> str:
    """Returns the new password: generated, from *file*, or typed twice.

    Raises:
        Failure: USAGE if there is no terminal, FAILED if the file cannot be read.
    """
    if generate:
        return secrets.token_urlsafe(GENERATED_BYTES)
    if file is not None:
        return passwords.read(doing, file)
    return passwords.ask(doing, user, REMEDY, is_new=True)
