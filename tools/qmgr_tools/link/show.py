"""qmctl link ls, show: how links are, and how they get on."""

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
        help="The queue manager there.",
    ),
]


def _up_of(paths: Any) -> str:
    """Return how many paths of a link are up, of how many."""
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
    output.duration("redial_ms", "DIALS IN"),
    output.duration("blocked_ms", "BLOCKED FOR"),
    output.duration("retry_ms", "TRIES IN"),
    output.text("blocked_uid", "BLOCKED BY"),
    output.text("blocked_queue", "BOUND FOR"),
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
    """List the links that lead from here, those that lead here, and who may open such.

    Conditions, order and columns are of those that lead from here; with a condition the others are
    not shown. Conditions know = != < <= > >=; text fits patterns: --where 'link=N*'.

    \b
    JSON: an array of objects, each with direction, by which their keys differ
      out       a link that leads from here, as "qmctl link show" gives it
      in        one that leads here (at most 1,000): peer (who sends),
                commit_id, ahead, duplicates, stream, connections, in_line, lost
                and lost_us (as of a link, here); and of the first message that
                cannot be stored: blocked_id, blocked_queue, tries_left (until it
                goes to SYSTEM.DEAD.LETTERS; null: it stays), error; or null
      allowed   who may open links to here (at most 10,000), with the keys of
                "qmctl link allow"
      refused   who tried and was refused since the daemon started: peer,
                store_id, code, count, last_us (microseconds since 1970)
    A note on stderr says how many are left out.

    Examples:
      qmctl link ls
      qmctl link ls --where 'state!=up' --sort -waiting --watch 5s
      qmctl link ls --columns link,state,down_ms,error
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)

    def ask(client: "Client") -> dict[str, Any]:
        found = client.admin.link_list()
        leading_here = [] if where else found["inbound"]
        shown = {"links": listing.rows(found["links"]), "inbound": leading_here}
        if where:
            shown |= {"allowed": [], "refused": [], "allowed_count": 0, "inbound_count": 0}
        return found | shown

    watch.follow(call, "list the links", ask, partial(_list, listing), as_json=_rows)


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all rows of a list of links as one array, each with its direction."""
    inbound.note_left_out(found)
    return [
        {"direction": direction, **row}
        for direction, key in DIRECTIONS.items()
        for row in found.get(key, ())
    ]


def _list(listing: filters.Listing, found: Mapping[str, Any]) -> None:
    if found["links"] or not (found["inbound"] or found.get("allowed") or found.get("refused")):
        listing.show(found["links"])
    inbound.show(found["inbound"], behind=found["links"])
    inbound.show_allowed(found, behind=found["links"] or found["inbound"])
    inbound.note_left_out(found)


@command(watched=True)
def show(call: Call, link: Peer) -> None:
    """Show a link: how it is, why it is not up, what waits for it, and each of its paths.

    Also what leads here from MANAGER, what of it cannot be stored, and whether MANAGER may open
    links to here; if there is no link to MANAGER, that alone.

    \b
    JSON: an object with
      link, addresses
      state                     stopped, waiting, dialling, opening, up, blocked,
                                refused
      error                     why it is not up, or ""
      waiting, waiting_bytes    messages that the other end has not committed yet
      in_flight, oldest_ms      those of them that are sent; the oldest of these
      commit_id, held, next_id  up to where the other end has all for good; what
                                it has above that; what comes next
      transferred, resent       messages that went over; that went again
      lost, lost_us             how many the other end may have lost as its store
                                was put back; when that was found out, in
                                microseconds since 1970, or null
      attempts                  dials in a row that led nowhere
      connections, ordered,     as it is defined
        fetch, routes, transit
      connections_up, paths     how many are; each: path, state, address,
                                in_flight, in_flight_bytes, oldest_ms, landed,
                                fetches, rtt_ms, stalls, attempts, redial_ms,
                                error
      down_ms, redial_ms        for how long it is down; until it dials; or null
      blocked_ms, retry_ms      for how long it is blocked; until it sends again
                                by itself; or null
      blocked_uid,              the message that the other end cannot take, the
        blocked_queue,          queue there that it is for, and how many messages
        blocked_behind          come after it; or null
      inbound, allowed,         what leads here from it, whether it may open links
        refused                 to here, and whether it was refused: as in
                                "qmctl link ls"

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
    inbound.show(row["inbound"], behind=row.get("link"))
    inbound.show_allowed(row, behind=row.get("link") or row["inbound"])


def row_of(client: "Client", link: str) -> dict[str, Any]:
    """Return the row of *link*; an empty one where it only leads here."""
    try:
        return dict(client.admin.link_show(link))
    except RequestError as error:
        if error.code != ErrorCode.LINK_UNKNOWN:
            raise
        return {}
