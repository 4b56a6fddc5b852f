"""qmctl link allow, disallow: which queue managers may open links to this one."""

from typing import Annotated

import typer

from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.cli.humanize import counted

STORE_ID_BYTES = 16
Sender = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.refused,
        help="The queue manager that sends to here.",
    ),
]
Allowed = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.allowed,
        help="The queue manager that sends to here.",
    ),
]


@command()
def allow(
    call: Call,
    manager: Sender,
    store_id: Annotated[
        str,
        typer.Option(
            metavar="HEX",
            show_default=False,
            help="The only store to accept, 32 digits: see qmctl status there.",
        ),
    ] = "",
) -> None:
    """Allow a queue manager to open links to this one.

    Without a definition here, a link from MANAGER is refused. The first MANAGER that comes is
    pinned to its store; with --store-id nobody else can come first. If the store of MANAGER was
    created again, give the id of its new store.

    A link that fetches, and one without addresses (--passive), need no definition.

    \b
    JSON: an object with
      peer, allowed           who, and true
      store_id                the store it is pinned to, or "" before it comes
      allowed_us, seen_us     when it was allowed, and last opened a link;
                              microseconds since 1970, or null
      error                   that its row is damaged, or ""

    Examples:
      qmctl link allow FRA
      qmctl link allow FRA --store-id 6a0f3c0d9b4e4f2f8a54c1f0b6d7e812
    """
    pinned = checked(manager, store_id)
    with call.client(f"allow links from {manager}") as client:
        row = client.admin.link_allow(manager, pinned)
    if call.is_json:
        output.document(row)
        return
    store = row.get("store_id")
    bound = f"from store {store}" if store else "the first store that comes is pinned"
    output.say(f"{manager} may open links to here; {bound}")


@command()
def disallow(call: Call, manager: Allowed) -> None:
    """End that a queue manager may open links to this one.

    Its open links are closed, and refused from then on; what waits there stays there. A link that
    leads from here to MANAGER stays. With link.inbound = "any" the next link from there is
    accepted.

    \b
    JSON: an object with
      peer          who
      connections   how many were closed
      inbound       link.inbound of this queue manager: "defined" or "any"

    Examples:
      qmctl link disallow FRA
    """
    with call.client(f"disallow links from {manager}") as client:
        row = client.admin.link_disallow(manager)
    closed = f"closed {counted(row['connections'], 'connection')}"
    if call.is_json:
        output.document({"peer": manager} | row)
    elif row["inbound"] == "any":
        output.say(f'{manager} may open links to here again, as link.inbound is "any"; {closed}')
    else:
        output.say(f"{manager} may not open links to here; {closed}")


def checked(manager: str, store_id: str) -> bytes:
    """Returns the id of a store from its hexadecimal digits.

    Raises:
        Failure: USAGE, it is not one.
    """
    try:
        found = bytes.fromhex(store_id)
    except ValueError:
        found = b"?"
    if len(found) not in (0, STORE_ID_BYTES):
        raise usage(
            f"cannot allow links from {manager}",
            f"--store-id {store_id[:80]!r} is not {2 * STORE_ID_BYTES} hexadecimal digits",
            f"see the store id in the output of: qmctl status, at {manager}",
        )
    return found
