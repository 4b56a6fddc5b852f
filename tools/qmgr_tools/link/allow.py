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
        help="The sending queue manager.",
    ),
]
Allowed = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.allowed,
        help="The sending queue manager.",
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
            help="Accept only the store with this id: 32 digits from qmctl status at MANAGER.",
        ),
    ] = "",
) -> None:
    """Allow a queue manager to open links to this one.

    Without this permission, a link from MANAGER is refused. The permission is pinned to the store
    of the first queue manager that connects as MANAGER, or to the store of --store-id. No other
    store is accepted. If the store of MANAGER was created again, allow the id of the new store.

    Links that fetch, and links without addresses (--passive), need no permission.

    \b
    JSON: an object with
      peer, allowed           the queue manager, and true
      store_id                the pinned store, or "" before the first connection
      allowed_us, seen_us     times of the permission and of the last opened link,
                              in microseconds since 1970, or null
      error                   the damage to the stored row, or ""

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
    bound = f"from store {store}" if store else "the first connection pins the store"
    output.say(f"allowed links from {manager}; {bound}")


@command()
def disallow(call: Call, manager: Allowed) -> None:
    """Stop allowing a queue manager to open links to this one.

    Open links from MANAGER are closed, new ones are refused, and the messages stay at MANAGER. An
    outbound link to MANAGER is not affected. With link.inbound = "any", the next link from MANAGER
    is accepted again.

    \b
    JSON: an object with
      peer          the queue manager
      connections   number of closed connections
      inbound       the setting link.inbound: "defined" or "any"

    Examples:
      qmctl link disallow FRA
    """
    with call.client(f"disallow links from {manager}") as client:
        row = client.admin.link_disallow(manager)
    closed = f"closed {counted(row['connections'], 'connection')}"
    if call.is_json:
        output.document({"peer": manager} | row)
    elif row["inbound"] == "any":
        output.say(f'{closed} from {manager}; it may connect again: link.inbound is "any"')
    else:
        output.say(f"disallowed links from {manager}; {closed}")


def checked(manager: str, store_id: str) -> bytes:
    """Returns the bytes of a store id in hexadecimal digits.

    Raises:
        Failure: USAGE if *store_id* is invalid.
    """
    try:
        found = bytes.fromhex(store_id)
    except ValueError:
        found = b"?"
    if len(found) not in (0, STORE_ID_BYTES):
        raise usage(
            f"cannot allow links from {manager}",
            f"--store-id {store_id[:80]!r} is not {2 * STORE_ID_BYTES} hexadecimal digits",
            f"run qmctl status at {manager} to get the store id",
        )
    return found
