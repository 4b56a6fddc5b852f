"""The options of every command: the address, the login and the format of the output."""

from pathlib import Path
from typing import Annotated

import typer

from qmgr_protocol.version import VERSION
from qmgr_tools.cli import completion
from qmgr_tools.cli.output import Format

Connect = Annotated[
    str | None,
    typer.Option(
        "--connect",
        "-c",
        metavar="ADDRESS",
        show_default=False,
        help="The address: HOST:PORT, tls:HOST:PORT or unix:/PATH. Several: with commas.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        show_default=False,
        autocompletion=completion.files,
        help="The data directory of a local daemon, instead of an address.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        show_default=False,
        autocompletion=completion.contexts,
        help="The name of a context, instead of an address; see: qmctl context --help.",
    ),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        show_default=False,
        help="The user to log in as; see: qmctl login --help.",
    ),
]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        help="A file with the password of --user.",
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        help="A file with a token (JWT) to log in with, instead of --user.",
    ),
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", show_default=False, help="table (the default) or json, for scripts."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"qmctl/{VERSION}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]
