"""qmctl link: create, alter, start, stop, delete."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import ADDRESSES_MAX, CONNECTIONS_MAX
from qmgr_tools.cli import completion, connect_options, dry_run, output
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import Exit, Failure, one_line, usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.context.target import checked
from qmgr_tools.link.doctor import blocked as doctor_blocked
from qmgr_tools.manager import definition_value
from qmgr_tools.queue.queue import Yes

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

NewName = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER", show_default=False, help="The queue manager at the other end."
    ),
]
Addresses = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ADDRESS",
        show_default=False,
        help="HOST:PORT, tls:HOST:PORT or unix:/PATH. The link tries several addresses in turn.",
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.links,
        help="The queue manager at the other end.",
    ),
]
CONNECTIONS = "Number of parallel connections."
KEEP_ORDER = "Keep the order of messages over several connections."
FETCH = "Also fetch messages from the other queue manager over the connections of this link."
TRANSIT = "Forward messages that arrive over other links."
ACCEPTABLE = {"PEER_STORE_CHANGED", "RESTORED", "PEER_RESTORED", "STORE_DAMAGED"}
STARTED = {"dialling", "opening", "up"}  # A start has no effect in these states.


@command()
def create(
    call: Call,
    link: NewName,
    addresses: Addresses = None,
    connections: Annotated[int, typer.Option(min=1, max=CONNECTIONS_MAX, help=CONNECTIONS)] = 1,
    ordered: Annotated[bool, typer.Option("--ordered", help=KEEP_ORDER)] = False,
    fetch: Annotated[bool, typer.Option("--fetch", help=FETCH)] = False,
    passive: Annotated[
        bool,
        typer.Option(
            "--passive", help="Create the link without an address: MANAGER connects and fetches."
        ),
    ] = False,
    route: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MANAGER",
            help="A queue manager to reach through MANAGER; '*': all others. Repeatable.",
        ),
    ] = None,
    transit: Annotated[bool, typer.Option("--transit", help=TRANSIT)] = False,
    stopped: Annotated[bool, typer.Option("--stopped", help="Do not start the link yet.")] = False,
) -> None:
    """Create a link to the queue manager MANAGER and start it.

    The link moves messages put on NAME@MANAGER to the queue NAME there, exactly once. With several
    connections, messages may overtake each other unless the link is --ordered.

    If this queue manager cannot connect to MANAGER, create the link at MANAGER with --fetch, and
    the link here with --passive. MANAGER then connects, and fetches the messages that wait here.

    JSON: the link as in "qmctl link show".

    Examples:
      qmctl link create NYC nyc.example:7470
      qmctl link create NYC 10.0.0.5:7470 10.0.1.5:7470 --connections 4
      qmctl link create NYC tls:nyc1.example:7471,tls:nyc2.example:7471
      qmctl link create SHOP --passive
      qmctl link create HUB hub:7470 --route '*'
    """
    given = _checked(addresses)
    if bool(given) == passive:
        why = "addresses and --passive exclude each other" if passive else "ADDRESS is missing"
        raise usage(f"cannot create link {link}", why, "use one or more addresses, or --passive")
    with call.client(f"create link {link}") as client:
        existed = not call.is_json and _exists(client, link)
        row = client.admin.link_create(
            link,
            given,
            stopped=stopped,
            connections=connections,
            ordered=ordered,
            fetch=fetch,
            routes=route or [],
            transit=transit,
        )
    words = f"link {link} already exists" if existed else f"created link {link}"
    _show(call, row, words + _state(row))


def _exists(client: "Client", link: str) -> bool:
    try:
        client.admin.link_show(link)
    except RequestError:  # LINK_UNKNOWN, or an error that also makes the create fail.
        return False
    return True


def _checked(addresses: list[str] | None) -> list[str]:
    """Returns each address of the arguments, which may have lists with commas."""
    from qmgr_client.address import split

    given = [checked(address, "ADDRESS") for address in addresses or []]
    return [one for address in given for one in split(address)]


def _state(row: Mapping[str, Any]) -> str:
    """Returns the state of a link in words, as the end of a sentence."""
    state, addresses = row.get("state"), row.get("addresses") or []
    if state in ("dialling", "opening"):
        return f", connecting to {', '.join(addresses)}"
    if state == "waiting" and not addresses:
        return f", waiting until {row.get('link')} connects"
    return f"; state: {state}"


@command()
def alter(
    call: Call,
    link: Name,
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ADDRESS",
            show_default=False,
            help="New addresses, which replace the current ones.",
        ),
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=1, max=CONNECTIONS_MAX, help=CONNECTIONS)
    ] = None,
    ordered: Annotated[bool | None, typer.Option("--ordered/--unordered", help=KEEP_ORDER)] = None,
    fetch: Annotated[bool | None, typer.Option("--fetch/--no-fetch", help=FETCH)] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MANAGER",
            help="New routes, which replace the current ones; '': none. Repeatable.",
        ),
    ] = None,
    transit: Annotated[bool | None, typer.Option("--transit/--no-transit", help=TRANSIT)] = None,
    dry: dry_run.DryRun = False,
) -> None:
    """Change the addresses or other attributes of a link, immediately and permanently.

    Pending messages stay on the link, including those in flight, and are sent to the new address
    exactly once. The link reconnects, even if it was refused. A stopped link stays stopped. If a
    queue manager other than MANAGER answers, the link sends no messages.

    \b
    JSON: the link as in "qmctl link show", and
      changed   an object: [before, after] of each changed attribute
    With --dry-run: the unchanged link, dry_run (true), and changed.

    Examples:
      qmctl link alter NYC nyc2.example:7470
      qmctl link alter NYC --connections 4
      qmctl link alter NYC 10.0.0.5:7470 10.0.1.5:7470 --dry-run
    """
    given = {
        "addresses": _checked(addresses) or None,
        "connections": connections,
        "ordered": ordered,
        "fetch": fetch,
        "routes": None if route is None else [name for name in route if name],
        "transit": transit,
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not changes:
        why = "no address and no option is given"
        raise usage(f"cannot alter link {link}", why)
    if len(changes.get("addresses", ())) > ADDRESSES_MAX:
        why = f"{len(changes['addresses']):,} addresses exceed the limit of {ADDRESSES_MAX}"
        raise usage(f"cannot alter link {link}", why, "use fewer addresses")
    with call.client(f"alter link {link}") as client:
        row = (
            _altered(client.admin.link_show(link), changes)
            if dry
            else client.admin.link_alter(link, **changes)
        )
    _show_altered(call, link, row, dry=dry)


def _show_altered(call: Call, link: str, row: Mapping[str, Any], *, dry: bool) -> None:
    changed = row.get("changed", {})
    words = f"link {link} is unchanged{_state(row)}"
    if changed:
        changes = "; ".join(
            f"{attribute} {_listed(before)} -> {_listed(after)}"
            for attribute, (before, after) in changed.items()
        )
        if dry:
            dry_run.show(call, row, f"alter link {link}: {changes}")
            return
        words = f"altered link {link}: {changes}{_state(row)}"
    _show(call, {**({"dry_run": True} if dry else {}), **row}, words)


def _listed(value: Any) -> str:
    """Returns the value of an attribute as text for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return output.listed(value) if isinstance(value, list) else str(value)


def _altered(row: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the *row* of a link with the effect of *changes*.

    Raises:
        RequestError: VALUE_INVALID if the daemon would refuse a value.
    """
    for name, value in changes.items():
        if why := definition_value.link_fault(name, value):
            raise RequestError(ErrorCode.VALUE_INVALID, f"links.{row['link']}.{name}: {why}")
    changed = {
        key: [row.get(key), after] for key, after in changes.items() if row.get(key) != after
    }
    return {**row, "changed": changed}


@command()
def start(
    call: Call,
    link: Name,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the peer's store if the link is refused.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Start a link that is stopped, refused or waiting.

    A blocked link retries automatically. This command makes it retry now.

    A link is refused if its peer has another store than before, or if one of the two stores was
    restored from a backup. "qmctl link show" shows the reason. With --accept the link continues
    after a confirmation. It sends its messages as a new stream, so messages that the peer already
    had may arrive twice. A link is also refused if another queue manager answers. In that case,
    correct the address with "qmctl link alter".

    JSON: the link as in "qmctl link show".

    Examples:
      qmctl link start NYC
      qmctl link start NYC --accept
    """
    with call.client(f"start link {link}") as client:
        before = client.admin.link_show(link)
        if accept and _is_acceptable(before):  # For other links the daemon reports the error.
            waiting = messages(before.get("waiting", 0))
            danger = f"some of its pending messages ({waiting}) may arrive twice"
            confirm(link, f"accept the peer of link {link}", danger, yes=yes)
        row = client.admin.link_start(link, accept=accept)
    _show(call, row, _started(link, before, row, accept=accept))


def _started(link: str, before: Mapping[str, Any], row: Mapping[str, Any], *, accept: bool) -> str:
    """Returns the effect of a start in words."""
    state, error = before.get("state"), one_line(str(before.get("error")))
    if state == "blocked":
        fix = doctor_blocked.found(dict(before), 0).remedy
        return f"link {link} is retrying; the last error was: {error}; to fix it: {fix}"
    if state in STARTED:
        return f"link {link} was already started{_state(row)}"
    words = f"started link {link}{_state(row)}"
    if state == "refused" and not accept:
        words += f"; it was refused: {error}"
        if _is_acceptable(before):
            words += f"; if it is refused again: {_accepting(link)}"
    return words


@command()
def stop(call: Call, link: Name) -> None:
    """Stop a link until it is started again, even across restarts. Its messages wait.

    JSON: the link as in "qmctl link show".

    Examples:
      qmctl link stop NYC
    """
    with call.client(f"stop link {link}") as client:
        row = client.admin.link_stop(link)
    _show(call, row, f"stopped link {link}; it holds {messages(row.get('waiting', 0))}")


@command()
def delete(
    call: Call,
    link: Name,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also delete its messages, which are then lost.")
    ] = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Delete a link, with --purge even if it holds messages. Asks for confirmation.

    The command also forgets the store id of the peer, unless the peer is allowed to open links to
    this queue manager (see "qmctl link disallow").

    \b
    JSON: an object with link and messages (the number of deleted messages)
      with --dry-run also dry_run (true), bytes, in_flight (the number of sent,
      but not confirmed messages)

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
        # If the link was empty, the user did not confirm the loss of messages that arrived since.
        count = client.admin.link_delete(link, purge=purge and (bool(waiting) or yes))["messages"]
    if call.is_json:
        output.document({"link": link, "messages": count})
    else:
        output.say(f"deleted link {link} and {messages(count)}")


def _holding(link: str, row: Mapping[str, Any], waiting: int) -> Failure:
    """Returns the failure of a command that deletes a link with messages."""
    why, remedy = f"it holds {messages(waiting)}", "wait until they are sent"
    if row.get("state") == "refused":
        why += f", and is refused: {str(row.get('error')).partition('; ')[0]}"
        see = f"see: qmctl link explain {link}"
        remedy = f"to send them: {_accepting(link)}" if _is_acceptable(row) else see
        if str(row.get("error")).startswith("PEER_WRONG:"):
            alter = connect_options.add_to(f"qmctl link alter {link} HOST:PORT")
            remedy = f"correct the address with: {alter}"
    what = f"cannot delete link {link}"
    return Failure(
        Exit.REFUSED, what, why, f"{remedy}, or delete it with --purge, which loses them"
    )


def _is_acceptable(row: Mapping[str, Any]) -> bool:
    """Returns whether the link of *row* would continue after the peer is accepted."""
    code = str(row.get("error")).partition(":")[0]
    return row.get("state") == "refused" and code in ACCEPTABLE


def _accepting(link: str) -> str:
    return connect_options.add_to(f"qmctl link start {link} --accept")


def _show(call: Call, row: Mapping[str, Any], words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)
