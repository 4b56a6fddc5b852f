"""qmctl link: create, ls, show, start, stop, delete."""

from typing import Annotated, Any

import typer

from qmgr_tools import output
from qmgr_tools.command import Call, command, confirm
from qmgr_tools.failure import Exit, Failure
from qmgr_tools.queue import Yes, messages
from qmgr_tools.target import checked

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
def start(call: Call, link: Name) -> None:
    """Start a link that is stopped, refused or waiting.

    JSON: the link, as "qmctl link show" gives it.
    """
    with call.client(f"start link {link}") as client:
        row = client.link_start(link)
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

    JSON: an object with link and messages, how many went with it.
    """
    with call.client(f"delete link {link}") as client:
        waiting = client.link_show(link).get("waiting", 0)
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


def _tell(call: Call, row: dict[str, Any], words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)
