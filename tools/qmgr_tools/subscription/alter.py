"""qmctl sub: create, alter, rm, healthy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import completion, dry_run, output
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import usage
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.job import run as job_run
from qmgr_tools.message import selecting
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue.alter import GetInhibit
from qmgr_tools.queue.queue import Yes
from qmgr_tools.subscription import attribute as subscription_attribute
from qmgr_tools.subscription import subscription
from qmgr_tools.subscription.subscription import Name
from qmgr_tools.topic import name as topic_name

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Filter = Annotated[
    str,
    typer.Argument(
        metavar="FILTER",
        show_default=False,
        autocompletion=completion.topics,
        help="flights/JFK/UA; + is any one level, # at the end all that follow.",
    ),
]
Retained = Annotated[
    bool,
    typer.Option(
        "--retained/--no-retained",
        help="Begin with the last retained publication of each topic, or not.",
    ),
]
COLUMNS = (
    *subscription_attribute.COLUMNS,
    output.Column("get_inhibit", "GET INHIBIT", output.flag),
)


@command(selecting.HELP, options=subscription_attribute.options(takes_default=False))
def create(
    call: Call,
    filter_: Filter,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="CLIENT:NAME; :NAME is no client's; :NAME@MANAGER leads over a link.",
        ),
    ],
    where: selecting.Where = "",
    retained: Retained = True,
    **attributes: Any,
) -> None:
    """Create a durable subscription; what exists already, just so, is left as it is.

    It gets what is published from now on to the topics that its filter has, and keeps it until
    somebody consumes it: qmctl get NAME, or qmctl sub consume. What fails more often than its
    redelivery limit is parked: see qmctl republish. :NAME@MANAGER sends what fits to that queue
    manager, to those who subscribed there.

    JSON: the subscription, as "qmctl sub show" gives it.

    Examples:
      qmctl sub create flights/+/UA BILLING:late
      qmctl sub create 'flights/#' :audit --where "delay > 20" --lease 5min
      qmctl sub create 'flights/#' :hub@NYC
    """
    given = queue_attribute.given(attributes)
    topic = topic_name.bare(filter_)
    with call.client(f"create subscription {name}") as client:
        was_there = not call.is_json and _is_there(client, name)
        row = client.admin.subscription_create(
            topic, topic_name.subscription(name), where=where, **given, retained=retained
        )
    if call.is_json:
        output.document(subscription.of(row))
    elif was_there:
        output.say(f"subscription {name} is there already")
    else:
        output.say(f"created subscription {name} to {row['topic']}")
        topic_name.note_wildcards(topic)


def _is_there(client: "Client", name: str) -> bool:
    try:
        client.admin.queue_show(name)
    except RequestError as error:
        if error.code not in (ErrorCode.SUBSCRIPTION_UNKNOWN, ErrorCode.QUEUE_UNKNOWN):
            raise
        return False
    return True


@command(options=subscription_attribute.options(takes_default=True))
def alter(
    call: Call,
    name: Name,
    get_inhibit: GetInhibit = None,
    dry: dry_run.DryRun = False,
    **attributes: Any,
) -> None:
    """Change options of a subscription that is in use; in force at once, and over restarts.

    The word "default" takes an option back: its topic has it then, or the queue manager. Filter and
    selector stay: for others make another subscription.

    \b
    JSON: the subscription, as "qmctl sub show" gives it, and
      changed   an object: [before, after] of each option that is another now
    With --dry-run it as it is, dry_run (true), and changed, where null is a
    default that only the queue manager knows.

    Examples:
      qmctl sub alter BILLING:late --redelivery-limit 10
      qmctl sub alter BILLING:late --overflow suspend --depth-max 100000
      qmctl sub alter BILLING:late --get-inhibit --dry-run
    """
    changes = queue_attribute.given(attributes | {"get_inhibit": get_inhibit})
    if not changes:
        raise usage(
            f"nothing is to be altered on subscription {name}",
            "no option says what",
            "as in: --redelivery-limit 10; see --help",
        )
    with call.client(f"alter subscription {name}") as client:
        row = subscription.found(client, name)
        if dry:
            changed = _would_change(name, row, changes)
        else:
            changed = client.admin.queue_alter(name, **changes)["changed"]
            row = subscription.found(client, name)
    _tell(call, name, row | {"changed": changed}, is_dry=dry)


def _would_change(
    name: str, row: Mapping[str, Any], changes: dict[str, Any]
) -> dict[str, list[Any]]:
    """Return what *changes* would change: [before, after] of each option.

    Raises:
        RequestError: VALUE_INVALID, as the daemon would say it.
    """
    from qmgrd.core.catalogue import attributes  # takes 100 ms

    attributes.altered(name, {"kind": row["kind"]}, changes)
    return {
        key: [row.get(key), after]
        for key, after in changes.items()
        if row.get(key) != after and (after is not None or key in row.get("given", ()))
    }


def _tell(call: Call, name: str, row: Mapping[str, Any], *, is_dry: bool) -> None:
    told = "; ".join(queue_attribute.changes(row["changed"], COLUMNS))
    if is_dry and (call.is_json or told):
        dry_run.tell(call, row, f"alter subscription {name}: {told}")
    elif call.is_json:
        output.document(row)
    else:
        said = f"altered subscription {name}: {told}"
        output.say(said if told else f"nothing to change on subscription {name}")


@command()
def rm(call: Call, name: Name, yes: Yes = False, dry: dry_run.DryRun = False) -> None:
    """End a subscription with all that it holds, parked or not.

    Asks where messages would be lost; --yes does not.

    \b
    JSON: an object with subscription and messages, how many went with it
      with --dry-run also dry_run (true), parked (of the messages) and consumers

    Examples:
      qmctl sub rm BILLING:late --dry-run
      qmctl sub rm BILLING:late --yes
    """
    with call.client(f"end subscription {name}") as client:
        row = subscription.found(client, name)
        count = row["behind"]
        if dry:
            _tell_end(call, row)
            return
        if count:
            loss = f"{messages(count)} on it will be lost"
            confirm(name, f"end subscription {name}", loss, yes=yes)
        ended = client.unsubscribe(name)["messages"]
    if call.is_json:
        output.document({"subscription": name, "messages": ended})
    else:
        output.say(f"ended subscription {name}" + (f" with {messages(ended)}" if ended else ""))


def _tell_end(call: Call, row: Mapping[str, Any]) -> None:
    counts = {"messages": row["behind"]}
    counts |= {key: row.get(key, 0) for key in ("parked", "consumers")}
    words = f"end subscription {row['subscription']} with {messages(counts['messages'])}"
    words += f", {counts['parked']} of them parked" * bool(counts["parked"])
    if consumers := counts["consumers"]:
        words += f"; {counted(consumers, 'consumer')} would lose it"
    dry_run.tell(call, {"subscription": row["subscription"]} | counts, words)


@command()
def healthy(call: Call, name: Name) -> None:
    """Say that a subscriber can take messages again.

    A suspended subscription goes on. What is parked for it is sent once more where its topics have
    it so, by their option: qmctl topic set TOPIC --republish healthy.

    \b
    JSON: the subscription, as "qmctl sub show" gives it, and
      job   that sends what of it its topics have so, or null

    Examples:
      qmctl sub healthy BILLING:late
    """
    with call.client(f"have subscription {name} go on") as client:
        was = subscription.found(client, name)
        row = client.admin.subscription_healthy(name)
        job = row["job"]
        done = 0
        if job and not call.is_json:
            done = job_run.watched(client, client.admin.job_show(job))["done"]
    if call.is_json:
        output.document(subscription.of(row))
        return
    told = "goes on" if was["suspended"] else "is healthy: it was not suspended"
    sent = f"; {messages(done)} once more, that were parked" if done else ""
    output.say(f"subscription {name} {told}{sent}")
    if left := row.get("parked", 0) - done:
        output.note(f"note: parked for it: {messages(left)}; see: qmctl republish send --to {name}")
