"""qmctl link: create, alter, ls, show, start, stop, delete."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools import completion, dry_run, inbound, output, watch
from qmgr_tools import filter as filters
from qmgr_tools.command import Call, command, confirm
from qmgr_tools.failure import Exit, Failure
from qmgr_tools.humane import duration, messages
from qmgr_tools.queue import Yes
from qmgr_tools.target import checked

if TYPE_CHECKING:
    from qmgr_client.blocking import Client


NewName = Annotated[
    str, typer.Argument(metavar="MANAGER", show_default=False, help="The queue manager there.")
]
Addresses = Annotated[
    list[str],
    typer.Argument(
        metavar="ADDRESS", show_default=False,
        help="HOST:PORT or unix:/PATH; of several, each dial tries the next.",
    ),
]  # fmt: skip
Name = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER", show_default=False, autocompletion=completion.links,
        help="The queue manager there.",
    ),
]  # fmt: skip
Peer = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER", show_default=False, autocompletion=completion.peers,
        help="The queue manager there.",
    ),
]  # fmt: skip


ACCEPTABLE = {"PEER_STORE_CHANGED", "RESTORED", "PEER_RESTORED", "STORE_DAMAGED"}
ON_ITS_WAY = {"dialling", "opening", "up"}  # A start does nothing for these.
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
    output.duration("down_ms", "DOWN FOR"),
    output.duration("redial_ms", "DIALS IN"),
    output.duration("retry_ms", "TRIES IN"),
    output.text("blocked_uid", "BLOCKED BY"),
    output.text("blocked_queue", "BOUND FOR"),
    output.count("blocked_behind", "BEHIND IT"),
    output.Column("addresses", "ADDRESSES", output.listed),
    output.long_text("error"),
)
LISTED = ("link", "state", "waiting", "in_flight", "commit_id", "resent", "addresses", "error")


@command()
def create(
    call: Call,
    link: NewName,
    addresses: Addresses,
    stopped: Annotated[bool, typer.Option("--stopped", help="Do not start it yet.")] = False,
) -> None:
    """Create a link to the queue manager MANAGER and start it.

    What is put on a queue NAME@MANAGER then goes to the queue NAME there, once and only once.

    JSON: the link, as "qmctl link show" gives it.

    Examples:
      qmctl link create NYC nyc.example:7470
      qmctl link create NYC 10.0.0.5:7470 10.0.1.5:7470 --stopped
    """
    said = [checked(address, "ADDRESS") for address in addresses]
    with call.client(f"create link {link}") as client:
        row = client.link_create(link, said, stopped=stopped)
    _tell(call, row, f"link {link} is there: {row.get('state')}")


@command()
def alter(call: Call, link: Name, addresses: Addresses, dry: dry_run.DryRun = False) -> None:
    """Give a link other addresses, in place of all it has; at once, and over restarts.

    What waits on it stays, and goes to the new address once and only once, whatever was under way.
    The link hangs up and dials, refused or not; a stopped one stays so. If another queue manager
    than MANAGER answers there, nothing is sent.

    \b
    JSON: the link, as "qmctl link show" gives it, and
      changed   an object: addresses, [before, after], or nothing
    With --dry-run the link as it is, dry_run (true), and changed.

    Examples:
      qmctl link alter NYC nyc2.example:7470
      qmctl link alter NYC 10.0.0.5:7470 10.0.1.5:7470 --dry-run
    """
    said = [checked(address, "ADDRESS") for address in addresses]
    with call.client(f"alter link {link}") as client:
        row = _altered(client.link_show(link), said) if dry else client.link_alter(link, said)
    changed = row.get("changed", {}).get("addresses")
    state = f"it is {row.get('state')}"
    if not changed:
        words = f"link {link} is so already; {state}"
    else:
        before, after = map(output.listed, changed)
        words = f"link {link}: addresses {before} -> {after}"
        if dry:
            dry_run.tell(call, row, f"alter {words}")
            return
        words = f"altered {words}; {state}"
    _tell(call, ({"dry_run": True} if dry else {}) | row, words)


def _altered(row: dict[str, Any], addresses: list[str]) -> dict[str, Any]:
    """Return the *row* of a link with what other *addresses* would change.

    Raises:
        RequestError: VALUE_INVALID, as the daemon would say it.
    """
    from qmgrd.core import attributes  # takes 100 ms

    attributes.link_addresses(row["link"], {"addresses": addresses}, ["addresses"])
    is_other = row["addresses"] != addresses
    return row | {"changed": {"addresses": [row["addresses"], addresses]} if is_other else {}}


@command(watched=True)
def ls(
    call: Call, columns: filters.Columns = None, where: filters.Where = None,
    sort: filters.Sort = None, limit: filters.Limit = None,
) -> None:  # fmt: skip
    """List the links that lead from here, and those of others that lead here.

    Conditions, order and columns are of those that lead from here; with a condition the others are
    not shown. Conditions know = != < <= > >=; text fits patterns: --where 'link=N*'.

    \b
    JSON: an object with
      links     an array of links, as "qmctl link show" gives them
      inbound   an array of objects: peer (who sends), commit_id, ahead,
                duplicates, stream; and of the first message that cannot be
                stored: blocked_id, blocked_queue, tries_left (until it goes
                to SYSTEM.DEAD.LETTERS; null: it stays), error; or null
      inbound_count   how many there are; inbound has at most 1,000

    Examples:
      qmctl link ls
      qmctl link ls --where 'state!=up' --sort -waiting --watch 5s
      qmctl link ls --columns link,state,down_ms,error
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)

    def ask(client: "Client") -> dict[str, Any]:
        found = client.link_list()
        leading_here = [] if where else found["inbound"]
        return found | {"links": listing.rows(found["links"]), "inbound": leading_here}

    watch.follow(call, "list the links", ask, partial(_list, listing))


def _list(listing: filters.Listing, found: dict[str, Any]) -> None:
    if found["links"] or not found["inbound"]:
        listing.show(found["links"])
    count = found.get("inbound_count", 0)
    inbound.show(found["inbound"], count=count, behind=found["links"])


@command(watched=True)
def show(call: Call, link: Peer) -> None:
    """Show a link: how it is, why it is not up, and what waits for it.

    Also what leads here from MANAGER, and what of it cannot be stored; where there is no link to
    MANAGER, that alone.

    \b
    JSON: an object with
      link, addresses
      state                     stopped, waiting, dialling, opening, up, blocked,
                                refused
      error                     why it is not up, or ""
      waiting, waiting_bytes    messages that the other end has not committed yet
      in_flight                 those of them that are sent
      commit_id, next_id        what the other end holds for good; what comes next
      transferred, resent       messages that went over; that went again
      attempts                  dials in a row that led nowhere
      down_ms, redial_ms        for how long it is down; until it dials; or null
      retry_ms                  until a blocked one sends again by itself; or null
      blocked_uid,              the message that the other end cannot take, the
        blocked_queue,          queue there that it is for, and how many messages
        blocked_behind          come after it; or null
      inbound                   what leads here from it, as in "qmctl link ls"

    Examples:
      qmctl link show NYC
      qmctl link show NYC --watch
    """

    watch.follow(call, f"show link {link}", partial(_both_ways, link), _show)


def _both_ways(link: str, client: "Client") -> dict[str, Any]:
    """Return the row of *link* with those that lead here from there, or these alone.

    Raises:
        RequestError: LINK_UNKNOWN, there is neither.
    """
    leading_here = [row for row in client.link_list()["inbound"] if row.get("peer") == link]
    row = _row(client, link) if leading_here else client.link_show(link)
    return row | {"inbound": leading_here}


def _show(row: dict[str, Any]) -> None:
    if "link" in row:
        output.facts(COLUMNS, row)
    inbound.show(row["inbound"], behind=row.get("link"))


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
        before = client.link_show(link)
        if accept and _is_acceptable(before):  # Of another one the daemon says what is wrong.
            danger = f"of {messages(before.get('waiting', 0))} on it some may arrive twice"
            confirm(link, f"accept the peer of link {link}", danger, yes=yes)
        row = client.link_start(link, accept=accept)
    _tell(call, row, _started(link, before, row, accept=accept))


def _started(link: str, before: dict[str, Any], row: dict[str, Any], *, accept: bool) -> str:
    """Return what a start has done to a link, in words."""
    was, error = before.get("state"), before.get("error")
    if was == "blocked":
        later = duration(before.get("retry_ms") or 0)
        return (
            f"link {link} was not stopped: it is blocked, and tries now what it would have tried "
            f"by itself in {later}: {error}"
        )
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
        row = client.link_stop(link)
    _tell(call, row, f"link {link} is stopped; {messages(row.get('waiting', 0))} on it")


@command()
def delete(
    call: Call,
    link: Peer,
    purge: Annotated[
        bool, typer.Option("--purge", help="Even with messages on it; they are lost.")
    ] = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Delete a link; with --purge even one on which messages wait. Asks first.

    Also forgets which store the queue manager of that name has, so that one that was made anew may
    come in its place; where a link only leads here from it, that is all.

    \b
    JSON: an object with link and messages, how many went with it
      with --dry-run also dry_run (true), bytes, in_flight (of the messages:
      sent, and not confirmed yet)

    Examples:
      qmctl link delete NYC
      qmctl link delete NYC --purge --dry-run
    """
    with call.client(f"delete link {link}") as client:
        row = _row(client, link)
        waiting = int(row.get("waiting", 0))
        if waiting and not purge:
            raise _holding(link, row, waiting)
        if dry:
            dry_run.delete_link(call, client, link, row)
            return
        loss = f"{messages(waiting)} on it will be lost" if row else "its peer will be forgotten"
        is_asked = bool(waiting) or not row
        if is_asked:
            confirm(link, f"delete link {link}", loss, yes=yes)
        # What came meanwhile nobody has agreed to lose.
        count = client.link_delete(link, purge=purge and (is_asked or yes))["messages"]
    if call.is_json:
        output.document({"link": link, "messages": count})
    else:
        output.say(f"deleted link {link} and {messages(count)}")


def _row(client: "Client", link: str) -> dict[str, Any]:
    """Return the row of *link*; an empty one where it only leads here."""
    try:
        return client.link_show(link)
    except RequestError as error:
        if error.code != ErrorCode.LINK_UNKNOWN:
            raise
        return {}


def _holding(link: str, row: dict[str, Any], waiting: int) -> Failure:
    """Return the failure to delete a link on which messages wait."""
    why, go = f"it holds {messages(waiting)}", "let them go"
    if row.get("state") == "refused":
        fact, _, remedy = str(row.get("error")).partition("; ")
        why = f"{why}, and is refused: {fact}"
        go = f"have them sent with: {_accepting(link)}" if _is_acceptable(row) else remedy or go
    what = f"cannot delete link {link}"
    return Failure(Exit.REFUSED, what, why, f"{go}, or delete it with --purge, which loses them")


def _is_acceptable(row: dict[str, Any]) -> bool:
    """Return whether accepting the peer has that link go on."""
    code = str(row.get("error")).partition(":")[0]
    return row.get("state") == "refused" and code in ACCEPTABLE


def _accepting(link: str) -> str:
    return f"qmctl link start {link} --accept"


def _tell(call: Call, row: dict[str, Any], words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)
