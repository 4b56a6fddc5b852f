"""qmctl sub: ls, show, lag."""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.topic import DYNAMIC
from qmgr_tools.cli import completion, humanize, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue import state as queue_state
from qmgr_tools.subscription import attribute as subscription_attribute
from qmgr_tools.topic import name as topic_name

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=completion.subscriptions,
        help='The name from "qmctl sub ls".',
    ),
]
OfTopic = Annotated[
    str,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        show_default=False,
        autocompletion=completion.topics,
        help="List only subscriptions whose filter matches this topic.",
    ),
]
SUSPENDED = "suspended"
COLUMNS = (
    output.whole("subscription"),
    output.text("topic"),
    output.long_text("where"),
    output.text("kind"),
    output.text("state"),
    output.Column("durable", "DURABLE", output.flag),
    output.count("behind"),
    output.count("ready"),
    output.count("leased"),
    output.count("delayed"),
    output.count("held"),
    output.count("parked"),
    output.count("missed"),
    output.count("depth"),
    output.size("bytes"),
    output.duration("oldest_ms", "OLDEST"),
    output.text("oldest", "SINCE"),
    output.count("consumers"),
    output.count("puts"),
    output.count("delivered"),
    output.count("acked"),
    output.count("returned"),
    output.count("purged"),
    output.count("damaged"),
    output.count("expired"),
    output.count("dead"),
    output.count("moved"),
    output.count("lost"),
    output.duration("unused_ms", "UNUSED FOR"),
    *subscription_attribute.COLUMNS,
    output.Column("given", "GIVEN", queue_attribute.labels),
    output.Column("suspended", "SUSPENDED", output.flag),
    output.Column("get_inhibit", "GET INHIBIT", output.flag),
    output.text("breaker"),
    output.count("grouped"),
    output.count("volatile"),
    output.count("first"),
    output.count("next_arrival"),
    output.count("queue_id"),
    output.text("manager"),
)
LISTED = (
    "subscription",
    "topic",
    "state",
    "ready",
    "leased",
    "delayed",
    "parked",
    "consumers",
    "acked",
)
LAG = (
    "subscription",
    "state",
    "behind",
    "ready",
    "leased",
    "delayed",
    "parked",
    "missed",
    "oldest_ms",
    "consumers",
)


@command(watched=True)
def ls(
    call: Call,
    topic: OfTopic = "",
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the subscriptions in order of name. Subscriptions ~... end with their connections.

    Conditions support = != < <= > >=. Text matches patterns: --where 'topic=flights/*'.

    JSON: an array of objects as in "qmctl sub show".

    Examples:
      qmctl sub ls
      qmctl sub ls --topic flights/JFK/UA
      qmctl sub ls --where 'parked>0' --sort -parked
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call,
        "list the subscriptions",
        lambda client: listing.rows(
            map(of, client.admin.subscription_list(topic_name.bare(topic)))
        ),
        listing.show,
    )


@command(watched=True)
def show(call: Call, name: Name) -> None:
    """Show a subscription: its filter, backlog, attributes and counters.

    \b
    JSON: an object with
      subscription, topic, where      name; filter; selector
      kind                            subscription, or proxy (over a link)
      manager                         target of a proxy, else ""
      durable                         whether it survives its connection
      state                           open, full, no gets, breaker, suspended
      suspended                       whether it waits for "qmctl sub healthy"
      behind                          backlog: depth, delayed and parked together
      depth, bytes                    ready or leased messages; their size
      ready, leased, delayed          ready; leased; waiting after a failure
      held                            always 0
      parked                          messages that failed too often; see
                                      "qmctl republish ls"
      missed                          messages that were lost because the
                                      subscription was full or suspended
      oldest, oldest_ms               time and age of the oldest publication
      consumers                       number of consumers
      unused_ms                       idle time, if unused_expiry_ms is set
      puts, fast, slow                arrivals, in total and by method of storing
      delivered, acked, returned      deliveries; acknowledgements; returns
      purged, damaged, expired        purged; set aside; expired messages
      dead, moved, lost               dead letters; moved; lost in a restart
      duplicates, refused             as in "qmctl queue show"
      first, next_arrival, queue_id   number of the first publication, of the next
                                      publication; id of the subscription
      get_inhibit, breaker, grouped, volatile, volatile_delayed, volatile_bytes,
      volatile_from, maybe_before, template
                                      as in "qmctl queue show"
      given                           attributes set for the subscription itself
      and all options of "qmctl sub alter"

    Examples:
      qmctl sub show BILLING:late
      qmctl sub show BILLING:late --watch
    """
    doing = f"show subscription {name}"
    watch.follow(call, doing, lambda client: found(client, name), show_row)


@command(watched=True)
def lag(
    call: Call,
    topic: OfTopic = "",
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """Show the backlog of each subscription, largest first.

    Proxies are omitted, because their publications wait on a link.

    JSON: an array of objects as in "qmctl sub show".

    Examples:
      qmctl sub lag
      qmctl sub lag --where 'oldest_ms>5min' --watch
      qmctl sub lag --limit 10 -o json
    """
    listing = filters.Listing(COLUMNS, LAG, columns, where or [], sort, limit)

    def ask(client: "Client") -> list[Any]:
        return listing.rows(
            worst_first(map(of, client.admin.subscription_list(topic_name.bare(topic))))
        )

    watch.follow(call, "show the backlog of subscriptions", ask, listing.show)


def worst_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of subscriptions except proxies, largest backlog first."""
    known = [row for row in rows if row["kind"] != "proxy"]
    return sorted(known, key=lambda row: (-row["behind"], -row["missed"], -(row["oldest_ms"] or 0)))


def of(row: Mapping[str, Any], now_us: int = 0) -> dict[str, Any]:
    """Returns the row of a subscription, as described in the help. *now_us* 0 means now."""
    shown = {key: value for key, value in row.items() if not key.endswith("_us")}
    oldest_us = row.get("oldest_us")
    passed_ms = None
    if oldest_us:
        passed_ms = max((now_us or time.time_ns() // 1_000) - oldest_us, 0) // 1_000
    return shown | {
        "state": state_of(row),
        "behind": sum(row.get(key, 0) for key in ("depth", "delayed", "parked")),
        "oldest": humanize.rfc3339(oldest_us) if oldest_us else None,
        "oldest_ms": passed_ms,
    }


def state_of(row: Mapping[str, Any]) -> str:
    """Returns the state of a subscription in one word."""
    return SUSPENDED if row.get("suspended") else queue_state.of(row)


def found(client: "Client", name: str) -> dict[str, Any]:
    """Returns the row of the subscription *name*.

    Raises:
        RequestError: SUBSCRIPTION_UNKNOWN if the subscription does not exist.
    """
    row = client.admin.queue_show(topic_name.subscription(name))
    next_ = next(iter(client.browse(name, 1)), None) if row.get("depth") else None
    return of_queue(row | {"oldest_us": None if next_ is None else next_.put_us})


NOT_SHOWN = ("queue", "origins", "origins_next")


def of_queue(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a subscription's row from the *row* of its queue, as described in the help."""
    name = str(row["queue"])
    shown = {key: value for key, value in row.items() if key not in NOT_SHOWN}
    own = {"durable": not name.startswith(DYNAMIC), "suspended": bool(row.get("suspended"))}
    return of({"subscription": name} | shown | own | {"manager": name.partition("@")[2]})


def show_row(row: dict[str, Any]) -> None:
    """Prints a subscription for people."""
    facts = [column for column in COLUMNS if column not in subscription_attribute.COLUMNS]
    output.facts(facts, row | {"suspended": row.get("suspended") or None})
    for section, columns in subscription_attribute.SECTIONS.items():
        if any(column.key in row for column in columns):
            output.facts(columns, row, f"\n{section}")


def check_no_queue(name: str) -> None:
    """Raises a Failure with USAGE if *name* is the name of a subscription, not of a queue."""
    if ":" in name:
        raise usage(
            f"cannot create queue {name}",
            "only names of subscriptions contain a colon",
            f"to create a subscription: qmctl sub create FILTER {name}",
        )
