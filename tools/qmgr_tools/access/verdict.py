"""qmctl access test: the rule that decides about a login."""

from enum import Enum
from typing import Annotated

import typer

from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit

LOOPBACK = "127.0.0.1"  # the rules do not distinguish the addresses of loopback


class Method(Enum):
    """A method of the rules."""

    SCRAM = "scram-sha-256"
    SCRAM_PLUS = "scram-sha-256-plus"
    CERTIFICATE = "certificate"
    TOKEN = "token"
    OPEN = "open"


class Encryption(Enum):
    """The encryption of a connection."""

    NONE = "none"
    REQUIRED = "required"
    CERTIFICATE = "certificate"


@command()
def verdict(
    call: Call,
    origin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="ADDRESS",
            show_default=False,
            help="The client's address, unix, or loopback (127.0.0.1).",
        ),
    ],
    user: Annotated[str, typer.Option("--as", metavar="USER", help="The user that logs in.")] = "",
    tls: Annotated[
        Encryption, typer.Option("--tls", help="Whether the client uses TLS, and a certificate.")
    ] = Encryption.NONE,
    method: Annotated[
        Method | None,
        typer.Option(
            "--method",
            show_default=False,
            help="The method. Default: a password, which is bound to the connection with TLS.",
        ),
    ] = None,
) -> None:
    """Show which rule decides about a login, and why.

    The exit code is 0 if the rules allow the login, else 4. The command neither logs in nor checks
    whether the user exists.

    \b
    JSON: an object with
      allowed   true or false
      rule      the position of the rule that decides, or 0 if no rule fits
      why       the reason

    Examples:
      qmctl access test --from 10.1.2.3 --as billing --tls required
      qmctl access test --from 10.1.2.3 --as billing --method certificate
      qmctl access test --from unix --method open
    """
    password = Method.SCRAM if tls is Encryption.NONE else Method.SCRAM_PLUS
    with call.client("test the rules for logins") as client:
        origin = LOOPBACK if origin == "loopback" else origin
        found = client.admin.access_test(origin, user, (method or password).value, tls=tls.value)
    if call.is_json:
        output.document(found)
    else:
        output.say(f"{'allowed' if found['allowed'] else 'refused'}: {found['why']}")
    if not found["allowed"]:
        raise typer.Exit(Exit.NOT_ALLOWED)
