"""qmctl link ls, show: the state and progress of links."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import completion, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.link import inbound
from qmgr_tools.link.doctor import text as link_doctor_text

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Peer = Annotated[
    str,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.peers,
        help="The queue manager at the other end.",
    ),
]


def _up_of(paths: Any) -> str:
    """Returns the number of paths that are up and the number of all paths, as in "1/2"."""
    found = paths or []
    return f"{sum(path.get('state') == 'up' for path in found)}/{len(found)}"


COLUMNS = (
    output.text("link"),
    output.text("state"),
    output.Column("paths", "PATHS", _up_of),
    output.count("waiting"),
    output.size("waiting_bytes", "WAITING SIZE"),
    output.count("in_flight"),
    output.duration("oldest_ms", "OLDEST"),
    output.count("commit_id"),
    output.count("held"),
    output.count("next_id"),
    output.count("transferred"),
    output.count("resent"),
    output.count("attempts"),
    output.duration("down_ms", "DOWN FOR"),
    output.duration("redial_ms", "RECONNECTS IN"),
    output.duration("blocked_ms", "BLOCKED FOR"),
    output.duration("retry_ms", "RETRIES IN"),
    output.text("blocked_uid", "BLOCKED BY"),
    output.text("blocked_queue", "BLOCKED QUEUE"),
    output.count("blocked_behind", "BEHIND IT"),
    output.Column("addresses", "ADDRESSES", output.listed),
    output.Column("ordered", "ORDERED", output.flag),
    output.Column("fetch", "FETCH", output.flag),
    output.Column("routes", "ROUTES", output.listed),
    output.Column("transit", "TRANSIT", output.flag),
    output.long_text("error"),
)
DIRECTIONS = {"out": "links", "in": "inbound", "allowed": "allowed", "refused": "refused"}
LISTED = (
    "link",
    "state",
    "paths",
    "waiting",
    "in_flight",
    "commit_id",
    "resent",
    "addresses",
    "error",
)


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the outbound links, the inbound links, and the queue managers that may open links.

    Conditions, order and columns apply to the outbound links. With a condition only outbound links
    are shown. Conditions support = != < <= > >=. Text matches patterns: --where 'link=N*'.
    For a link that is up, the table has only the addresses in use.

    \b
    JSON: an array of objects, whose keys depend on their direction:
      out       an outbound link, as in "qmctl link show"
      in        an inbound link (at most 1,000): peer (the sender), commit_id,
                ahead, duplicates, stream, connections, in_line, lost and
                lost_us (as in "qmctl link show", at this end). For the first
                message that cannot be stored: blocked_id, blocked_queue,
                tries_left (before it moves to SYSTEM.DEAD.LETTERS; null:
                unlimited) and error; else null. dead_letters and
                dead_error: the number of messages that became dead letters at
                this end since the daemon started, and the last reason
      allowed   a queue manager that may open links (at most 10,000), with the
                keys of "qmctl link allow"
      refused   a queue manager that was refused since the daemon started: peer,
                store_id, code, count, last_us (microseconds since 1970),
                error (the last)
    A note on stderr gives the number of omitted rows.

    Examples:
      qmctl link ls
      qmctl link ls --where 'state!=up' --sort -waiting --watch 5s
      qmctl link ls --columns link,state,down_ms,error
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)

    def ask(client: "Client") -> dict[str, Any]:
        found = client.admin.link_list()
        arriving = [] if where else found["inbound"]
        shown = {"links": listing.rows(found["links"]), "inbound": arriving}
        if where:
            shown |= {"allowed": [], "refused": [], "allowed_count": 0, "inbound_count": 0}
        return found | shown

    watch.follow(call, "list the links", ask, partial(_list, listing), as_json=_rows)


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns all rows of a list of links as one list, each with its direction."""
    inbound.note_left_out(found)
    return [
        {"direction": direction, **row}
        for direction, key in DIRECTIONS.items()
        for row in found.get(key, ())
    ]


def _list(listing: filters.Listing, found: Mapping[str, Any]) -> None:
    if found["links"] or not (found["inbound"] or found.get("allowed") or found.get("refused")):
        listing.show([_in_use(row) for row in found["links"]])
    inbound.show(found["inbound"], after=found["links"])
    inbound.show_allowed(found, after=found["links"] or found["inbound"])
    inbound.note_left_out(found)


def _in_use(row: dict[str, Any]) -> dict[str, Any]:
    """Returns *row* with only the addresses of paths that are up, if any are."""
    up = {path.get("address") for path in row.get("paths") or () if path.get("state") == "up"}
    used = [address for address in row.get("addresses") or () if address in up]
    return row | {"addresses": used} if used else row


@command(watched=True)
def show(call: Call, link: Peer) -> None:
    """Show a link: its state, errors, pending messages, and each of its paths.

    The output includes the inbound link from MANAGER, its message that cannot be stored, if any,
    and whether MANAGER may open links.

    \b
    JSON: an object with
      link, addresses
      state                     stopped, waiting, dialling, opening, up, blocked,
                                refused
      error                     the reason why the link is not up, or ""
      waiting, waiting_bytes    messages that the peer has not committed
      in_flight, oldest_ms      messages that were sent but not committed; age of
                                the oldest
      commit_id, held, next_id  id up to which the peer committed all messages;
                                number of messages it holds above; the next id
      transferred, resent       messages transferred; messages sent again
      lost, lost_us             messages that the peer may have lost because its
                                store was restored; time of the detection, in
                                microseconds since 1970, or null
      attempts                  consecutive connection attempts that failed
      connections, ordered,     the attributes of the link
        fetch, routes, transit
      connections_up            number of paths that are up
      paths                     an array: path, state, address, in_flight,
                                in_flight_bytes, oldest_ms, landed,
                                fetches, rtt_ms, stalls, attempts, redial_ms,
                                error
      down_ms, redial_ms        time for which the link has been down; time until
                                it connects again; or null
      blocked_ms, retry_ms      time for which the link has been blocked; time
                                until it sends again; or null
      blocked_uid,              the message that the peer cannot store, its
        blocked_queue,          queue at the peer, and the number of messages
        blocked_behind          after it; or null
      inbound, allowed,         the inbound link, the permission, and refusals of
        refused                 MANAGER, as in "qmctl link ls"

    Examples:
      qmctl link show NYC
      qmctl link show NYC --watch
    """

    watch.follow(call, f"show link {link}", partial(_both_ways, link), _show)


def _both_ways(link: str, client: "Client") -> dict[str, Any]:
    """Returns the row of *link* with its inbound rows, or only the inbound rows.

    Raises:
        RequestError: LINK_UNKNOWN if there are no outbound or inbound rows.
    """
    found = client.admin.link_list()
    ways = {
        way: [row for row in found[way] if row["peer"] == link]
        for way in ("inbound", "allowed", "refused")
    }
    row = row_of(client, link) if any(ways.values()) else client.admin.link_show(link)
    return {**row, **ways}


def _show(row: Mapping[str, Any]) -> None:
    if "link" in row:
        output.facts(COLUMNS, row)
        link_doctor_text.show_paths(row.get("paths") or [])
    inbound.show(row["inbound"], after=row.get("link"))
    inbound.show_allowed(row, after=row.get("link") or row["inbound"])


def row_of(client: "Client", link: str) -> dict[str, Any]:
    """Returns the row of *link*, or an empty row if there is no outbound link."""
    try:
        return dict(client.admin.link_show(link))
    except RequestError as error:
        if error.code != ErrorCode.LINK_UNKNOWN:
            raise
        return {}
