"""qmctl link: create, alter, ls, show, start, stop, delete."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, dry_run, output, same_place
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import Exit, Failure, one_line, usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.context.target import checked
from qmgr_tools.queue.queue import Yes

if TYPE_CHECKING:
    pass


NewName = Annotated[
    str, typer.Argument(metavar="MANAGER", show_default=False, help="The queue manager there.")
]
Addresses = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ADDRESS",
        show_default=False,
        help="HOST:PORT or unix:/PATH; of several, each dial tries the next.",
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.links,
        help="The queue manager there.",
    ),
]
CONNECTIONS_MAX = 16
KEEP_ORDER = "Keep the order of messages over several connections."
ACCEPTABLE = {"PEER_STORE_CHANGED", "RESTORED", "PEER_RESTORED", "STORE_DAMAGED"}
ON_ITS_WAY = {"dialling", "opening", "up"}  # A start does nothing for these.


@command()
def create(
    call: Call,
    link: NewName,
    addresses: Addresses = None,
    connections: Annotated[
        int, typer.Option(min=1, max=CONNECTIONS_MAX, help="How many carry it at a time.")
    ] = 1,
    ordered: Annotated[bool, typer.Option("--ordered", help=KEEP_ORDER)] = False,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Ask there, over what is dialled, for what waits.")
    ] = False,
    passive: Annotated[
        bool, typer.Option("--passive", help="It has no address: it dials, and fetches.")
    ] = False,
    route: Annotated[
        list[str] | None,
        typer.Option(metavar="MANAGER", help="What lies behind it, once for each; '*': all else."),
    ] = None,
    transit: Annotated[
        bool, typer.Option("--transit", help="What other links bring may go on over it.")
    ] = False,
    stopped: Annotated[bool, typer.Option("--stopped", help="Do not start it yet.")] = False,
) -> None:
    """Create a link to the queue manager MANAGER and start it.

    What is put on a queue NAME@MANAGER then goes to the queue NAME there, once and only once. With
    several connections messages may overtake each other, unless it is --ordered.

    Where MANAGER cannot be dialled: create the link there with --fetch, and the one here with
    --passive. It then gets what waits here over the connections that it dials.

    JSON: the link, as "qmctl link show" gives it.

    Examples:
      qmctl link create NYC nyc.example:7470
      qmctl link create NYC 10.0.0.5:7470 10.0.1.5:7470 --connections 4
      qmctl link create SHOP --passive
      qmctl link create HUB hub:7470 --route '*'
    """
    said = [checked(address, "ADDRESS") for address in addresses or []]
    if bool(said) == passive:
        why = "it has addresses, and --passive" if passive else "missing argument 'ADDRESS'"
        raise usage(f"cannot create link {link}", why, "give addresses, or --passive")
    with call.client(f"create link {link}") as client:
        row = client.admin.link_create(
            link,
            said,
            stopped=stopped,
            connections=connections,
            ordered=ordered,
            fetch=fetch,
            routes=route or [],
            transit=transit,
        )
    _tell(call, row, f"link {link} is there: {row.get('state')}")


@command()
def alter(
    call: Call,
    link: Name,
    addresses: Annotated[
        list[str] | None,
        typer.Argument(metavar="ADDRESS", show_default=False, help="In place of all it has."),
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=1, max=CONNECTIONS_MAX, help="How many carry it at a time.")
    ] = None,
    ordered: Annotated[bool | None, typer.Option("--ordered/--unordered", help=KEEP_ORDER)] = None,
    fetch: Annotated[
        bool | None,
        typer.Option("--fetch/--no-fetch", help="Ask there for what waits, over what is dialled."),
    ] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(metavar="MANAGER", help="In place of all it has, once for each; '': none."),
    ] = None,
    transit: Annotated[
        bool | None,
        typer.Option("--transit/--no-transit", help="What other links bring may go on over it."),
    ] = None,
    dry: dry_run.DryRun = False,
) -> None:
    """Give a link other addresses, connections or order; at once, and over restarts.

    What waits on it stays, and goes to the new address once and only once, whatever was under way.
    The link hangs up and dials, refused or not; a stopped one stays so. If another queue manager
    than MANAGER answers there, nothing is sent.

    \b
    JSON: the link, as "qmctl link show" gives it, and
      changed   an object: attribute to [before, after], or nothing
    With --dry-run the link as it is, dry_run (true), and changed.

    Examples:
      qmctl link alter NYC nyc2.example:7470
      qmctl link alter NYC --connections 4
      qmctl link alter NYC 10.0.0.5:7470 10.0.1.5:7470 --dry-run
    """
    said = [checked(address, "ADDRESS") for address in addresses or []]
    given = {
        "addresses": said or None,
        "connections": connections,
        "ordered": ordered,
        "fetch": fetch,
        "routes": None if route is None else [name for name in route if name],
        "transit": transit,
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not changes:
        why = "no addresses and none of its options are given"
        raise usage(f"cannot alter link {link}", why)
    with call.client(f"alter link {link}") as client:
        row = (
            _altered(client.admin.link_show(link), changes)
            if dry
            else client.admin.link_alter(link, **changes)
        )
    _tell_altered(call, link, row, dry=dry)


def _tell_altered(call: Call, link: str, row: Mapping[str, Any], *, dry: bool) -> None:
    changed, state = row.get("changed", {}), f"it is {row.get('state')}"
    words = f"link {link} is so already; {state}"
    if changed:
        told = "; ".join(
            f"{attribute} {_listed(before)} -> {_listed(after)}"
            for attribute, (before, after) in changed.items()
        )
        if dry:
            dry_run.tell(call, row, f"alter link {link}: {told}")
            return
        words = f"altered link {link}: {told}; {state}"
    _tell(call, {**({"dry_run": True} if dry else {}), **row}, words)


def _listed(value: Any) -> str:
    """Return the value of an attribute as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return output.listed(value) if isinstance(value, list) else str(value)


def _altered(row: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the *row* of a link with what *changes* would change.

    Raises:
        RequestError: VALUE_INVALID, as the daemon would say it.
    """
    from qmgrd.core.catalogue import link_attributes  # takes 100 ms

    link_attributes.altered(row["link"], changes)
    changed = {
        key: [row.get(key), after] for key, after in changes.items() if row.get(key) != after
    }
    return {**row, "changed": changed}


@command()
def start(
    call: Call,
    link: Name,
    accept: Annotated[
        bool, typer.Option("--accept", help="Of a refused link: take the peer as it is now.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Start a link that is stopped, refused or waiting.

    A blocked one tries again by itself; this has it try now.

    A link is refused when its peer has another store than before, or when one of the two was
    restored from a backup: "qmctl link show" tells. With --accept it goes on all the same, and
    sends what it holds as a new stream: what the peer had of it already arrives twice. Asks first.
    It is refused, too, where another queue manager answers: that "qmctl link alter" mends.

    JSON: the link, as "qmctl link show" gives it.

    Examples:
      qmctl link start NYC
      qmctl link start NYC --accept
    """
    with call.client(f"start link {link}") as client:
        before = client.admin.link_show(link)
        if accept and _is_acceptable(before):  # Of another one the daemon says what is wrong.
            danger = f"of {messages(before.get('waiting', 0))} on it some may arrive twice"
            confirm(link, f"accept the peer of link {link}", danger, yes=yes)
        row = client.admin.link_start(link, accept=accept)
    _tell(call, row, _started(link, before, row, accept=accept))


def _started(link: str, before: Mapping[str, Any], row: Mapping[str, Any], *, accept: bool) -> str:
    """Return what a start has done to a link, in words."""
    was, error = before.get("state"), before.get("error")
    if was == "blocked":
        return f"link {link} is trying again now; before: {one_line(str(error))}"
    if was in ON_ITS_WAY:
        return f"link {link} was not stopped: it is {row.get('state')}"
    words = f"link {link} is started: {row.get('state')}"
    if was == "refused" and not accept:
        words += f"; it was refused: {error}"
        if _is_acceptable(before):
            words += f"; if it is again: {_accepting(link)}"
    return words


@command()
def stop(call: Call, link: Name) -> None:
    """Stop a link until it is started again, over restarts too; its messages wait.

    JSON: the link, as "qmctl link show" gives it.

    Examples:
      qmctl link stop NYC
    """
    with call.client(f"stop link {link}") as client:
        row = client.admin.link_stop(link)
    _tell(call, row, f"link {link} is stopped; {messages(row.get('waiting', 0))} on it")


@command()
def delete(
    call: Call,
    link: Name,
    purge: Annotated[
        bool, typer.Option("--purge", help="Even with messages on it; they are lost.")
    ] = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Delete a link; with --purge even one on which messages wait. Asks first.

    Also forgets which store the queue manager of that name has, unless it may open links to here:
    "qmctl link disallow" ends that.

    \b
    JSON: an object with link and messages, how many went with it
      with --dry-run also dry_run (true), bytes, in_flight (of the messages:
      sent, and not confirmed yet)

    Examples:
      qmctl link delete NYC
      qmctl link delete NYC --purge --dry-run
    """
    with call.client(f"delete link {link}") as client:
        row = client.admin.link_show(link)
        waiting = int(row.get("waiting", 0))
        if waiting and not purge:
            raise _holding(link, row, waiting)
        if dry:
            dry_run.delete_link(call, client, link, row)
            return
        if waiting:
            loss = f"{messages(waiting)} on it will be lost"
            confirm(link, f"delete link {link}", loss, yes=yes)
        # What came meanwhile nobody has agreed to lose.
        count = client.admin.link_delete(link, purge=purge and (bool(waiting) or yes))["messages"]
    if call.is_json:
        output.document({"link": link, "messages": count})
    else:
        output.say(f"deleted link {link} and {messages(count)}")


def _holding(link: str, row: Mapping[str, Any], waiting: int) -> Failure:
    """Return the failure to delete a link on which messages wait."""
    why, go = f"it holds {messages(waiting)}", "let them go"
    if row.get("state") == "refused":
        fact, _, remedy = str(row.get("error")).partition("; ")
        why = f"{why}, and is refused: {fact}"
        go = f"have them sent with: {_accepting(link)}" if _is_acceptable(row) else remedy or go
    what = f"cannot delete link {link}"
    return Failure(Exit.REFUSED, what, why, f"{go}, or delete it with --purge, which loses them")


def _is_acceptable(row: Mapping[str, Any]) -> bool:
    """Return whether accepting the peer has that link go on."""
    code = str(row.get("error")).partition(":")[0]
    return row.get("state") == "refused" and code in ACCEPTABLE


def _accepting(link: str) -> str:
    return same_place.commands(f"qmctl link start {link} --accept")


def _tell(call: Call, row: Mapping[str, Any], words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)
