"""qmctl link: create, ls, show, start, stop, delete."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools import output
from qmgr_tools.command import Call, command, confirm
from qmgr_tools.failure import Exit, Failure
from qmgr_tools.queue import Yes, messages
from qmgr_tools.target import checked

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

app = typer.Typer(
    help="Links to other queue managers: create, show, start, stop, ...", no_args_is_help=True
)

Name = Annotated[
    str, typer.Argument(metavar="MANAGER", show_default=False, help="The queue manager there.")
]

COLUMNS = (
    output.text("link"),
    output.text("state"),
    output.count("waiting"),
    output.size("waiting_bytes", "WAITING SIZE"),
    output.count("in_flight"),
    output.count("commit_id"),
    output.count("next_id"),
    output.count("transferred"),
    output.count("resent"),
    output.count("attempts"),
    output.Column("addresses", "ADDRESSES", output.listed),
    output.long_text("error"),
)
SHORT = ("link", "state", "waiting", "in_flight", "commit_id", "resent", "addresses", "error")
LISTED = [column for column in COLUMNS if column.key in SHORT]
INBOUND = (
    output.text("peer", "FROM"),
    output.count("commit_id"),
    output.count("ahead"),
    output.count("duplicates"),
    output.text("stream"),
)


@command(app, "create")
def create(
    call: Call,
    link: Name,
    addresses: Annotated[
        list[str],
        typer.Argument(
            metavar="ADDRESS", show_default=False,
            help="HOST:PORT or unix:/PATH; of several, each dial tries the next.",
        ),
    ],
    stopped: Annotated[bool, typer.Option("--stopped", help="Do not start it yet.")] = False,
) -> None:  # fmt: skip
    """Create a link to the queue manager MANAGER and start it.

    JSON: the link, as "qmctl link show" gives it.
    """
    said = [checked(address, "ADDRESS") for address in addresses]
    with call.client(f"create link {link}") as client:
        row = client.link_create(link, said, stopped=stopped)
    _tell(call, row, f"link {link} is there: {row.get('state')}")


@command(app, "ls")
def ls(call: Call) -> None:
    """List the links that lead from here, and those of others that lead here.

    \b
    JSON: an object with
      links     an array of links, as "qmctl link show" gives them
      inbound   an array of objects: peer (who sends), commit_id, ahead, duplicates, stream
    """
    with call.client("list the links") as client:
        found = client.link_list()
    if call.is_json:
        output.document(found)
        return
    output.table(LISTED, found["links"])
    if found["inbound"]:
        print()
        output.table(INBOUND, found["inbound"])


@command(app, "show")
def show(call: Call, link: Name) -> None:
    """Show a link.

    \b
    JSON: an object with
      link, addresses, state    stopped, waiting, dialling, opening, up, blocked or refused
      error                     why it is not up, or ""
      waiting, waiting_bytes    messages that the other end has not committed yet
      in_flight                 those of them that are sent
      commit_id, next_id        what the other end holds for good, what comes next here
      transferred, resent, attempts
    """
    with call.client(f"show link {link}") as client:
        row = client.link_show(link)
    if call.is_json:
        output.document(row)
    else:
        output.facts(COLUMNS, row)


@command(app, "start")
def start(
    call: Call,
    link: Name,
    accept: Annotated[
        bool, typer.Option("--accept", help="Of a refused link: take the peer as it is now.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Start a link that is stopped, refused or waiting.

    A link is refused when its peer has another store than before, or when one of the two was
    restored from a backup: "qmctl link show" tells. With --accept it goes on all the same, and
    sends what it holds as a new stream: what the peer had of it already arrives twice. Asks first.

    JSON: the link, as "qmctl link show" gives it.
    """
    with call.client(f"start link {link}") as client:
        if accept:
            waiting = messages(client.link_show(link).get("waiting", 0))
            danger = f"of {waiting} on it some may arrive twice"
            confirm(link, f"accept the peer of link {link}", danger, yes=yes)
        row = client.link_start(link, accept=accept)
    _tell(call, row, f"link {link} is started: {row.get('state')}")


@command(app, "stop")
def stop(call: Call, link: Name) -> None:
    """Stop a link until it is started again, over restarts too; its messages wait.

    JSON: the link, as "qmctl link show" gives it.
    """
    with call.client(f"stop link {link}") as client:
        row = client.link_stop(link)
    _tell(call, row, f"link {link} is stopped; {messages(row.get('waiting', 0))} on it")


@command(app, "delete")
def delete(
    call: Call,
    link: Name,
    purge: Annotated[bool, typer.Option("--purge", help="With the messages on it.")] = False,
    yes: Yes = False,
) -> None:
    """Delete a link; with --purge even one on which messages wait. Asks first.

    Also forgets which store the queue manager of that name has, so that one that was made anew may
    come in its place; where a link only leads here from it, that is all.

    JSON: an object with link and messages, how many went with it.
    """
    with call.client(f"delete link {link}") as client:
        waiting = _waiting(client, link)
        if waiting and not purge:
            raise Failure(
                Exit.REFUSED, f"cannot delete link {link}", f"it holds {messages(waiting)}",
                "let them go, or delete it with --purge",
            )  # fmt: skip
        confirm(link, f"delete link {link}", f"{messages(waiting)} on it will be lost", yes=yes)
        count = client.link_delete(link, purge=purge)["messages"]
    if call.is_json:
        output.document({"link": link, "messages": count})
    else:
        output.say(f"deleted link {link} and {messages(count)}")


def _waiting(client: "Client", link: str) -> int:
    """Return how many messages wait on *link*; none where it only leads here."""
    try:
        return int(client.link_show(link).get("waiting", 0))
    except RequestError as error:
        if error.code != ErrorCode.LINK_UNKNOWN:
            raise
        return 0


def _tell(call: Call, row: dict[str, Any], words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)
