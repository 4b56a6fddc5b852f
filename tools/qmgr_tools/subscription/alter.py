"""qmctl sub: create, alter, delete, healthy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import completion, dry_run, output
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import usage
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.job import run as job_run
from qmgr_tools.message import selection
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
        help="A filter, as in flights/JFK/UA. + matches one level, a final # all further levels.",
    ),
]
Retained = Annotated[
    bool,
    typer.Option(
        "--retained/--no-retained",
        help="Begin with the retained publications of the topics, or only with new ones.",
    ),
]
COLUMNS = (
    *subscription_attribute.COLUMNS,
    output.Column("get_inhibit", "GET INHIBIT", output.flag),
)


@command(selection.HELP, options=subscription_attribute.options(takes_default=False))
def create(
    call: Call,
    filter_: Filter,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="CLIENT:NAME, :NAME without a client, or :NAME@MANAGER over a link.",
        ),
    ],
    where: selection.Where = "",
    retained: Retained = True,
    **attributes: Any,
) -> None:
    """Create a durable subscription. Has no effect if the same subscription already exists.

    The subscription stores later publications to matching topics until they are consumed, with
    "qmctl get NAME" or "qmctl sub consume". A publication that fails more often than the redelivery
    limit is parked (see: qmctl republish). A subscription :NAME@MANAGER forwards matching
    publications to the subscribers of that queue manager.

    JSON: the subscription as in "qmctl sub show".

    Examples:
      qmctl sub create flights/+/UA BILLING:late
      qmctl sub create 'flights/#' :audit --where "delay > 20" --lease 5min
      qmctl sub create 'flights/#' :hub@NYC
    """
    given = queue_attribute.given(attributes)
    topic = topic_name.bare(filter_)
    with call.client(f"create subscription {name}") as client:
        existed = not call.is_json and _exists(client, name)
        row = client.admin.subscription_create(
            topic, topic_name.subscription(name), where=where, **given, retained=retained
        )
    if call.is_json:
        output.document(subscription.of(row))
    elif existed:
        output.say(f"subscription {name} already exists")
    else:
        output.say(f"created subscription {name} to {row['topic']}")
        topic_name.note_wildcards(topic)


def _exists(client: "Client", name: str) -> bool:
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
    """Change options of a subscription, immediately and permanently, even while it is in use.

    The word "default" resets an option to the value of the topic, or to the queue manager's
    default. The filter and the selector cannot be changed. Create another subscription instead.

    \b
    JSON: the subscription as in "qmctl sub show", and
      changed   an object: [before, after] of each changed option
    With --dry-run: the unchanged subscription, dry_run (true), and changed. In
    changed, null stands for the default.

    Examples:
      qmctl sub alter BILLING:late --redelivery-limit 10
      qmctl sub alter BILLING:late --overflow suspend --depth-max 100000
      qmctl sub alter BILLING:late --get-inhibit --dry-run
    """
    changes = queue_attribute.given(attributes | {"get_inhibit": get_inhibit})
    if not changes:
        raise usage(
            f"cannot alter subscription {name}",
            "no option is given",
            "example: --redelivery-limit 10; see --help",
        )
    with call.client(f"alter subscription {name}") as client:
        row = subscription.found(client, name)
        if dry:
            changed = _would_change(name, row, changes)
        else:
            changed = client.admin.queue_alter(name, **changes)["changed"]
            row = subscription.found(client, name)
    _show(call, name, row | {"changed": changed}, is_dry=dry)


def _would_change(
    name: str, row: Mapping[str, Any], changes: dict[str, Any]
) -> dict[str, list[Any]]:
    """Returns the effect of *changes*: [before, after] by option.

    Raises:
        RequestError: VALUE_INVALID if the subscription is a proxy without these attributes, or if a
            value is invalid.
    """
    queue_attribute.check_known(row, changes)
    queue_attribute.check_values(name, changes)
    return {
        key: [row.get(key), after]
        for key, after in changes.items()
        if row.get(key) != after and (after is not None or key in row.get("given", ()))
    }


def _show(call: Call, name: str, row: Mapping[str, Any], *, is_dry: bool) -> None:
    changes = "; ".join(queue_attribute.changes(row["changed"], COLUMNS))
    if is_dry and (call.is_json or changes):
        dry_run.show(call, row, f"alter subscription {name}: {changes}")
    elif call.is_json:
        output.document(row)
    else:
        altered = f"altered subscription {name}: {changes}"
        output.say(altered if changes else f"subscription {name} is unchanged")


@command()
def delete(call: Call, name: Name, yes: Yes = False, dry: dry_run.DryRun = False) -> None:
    """Delete a subscription with all its publications, including parked ones.

    The command asks for confirmation if messages would be lost, unless --yes is given.

    \b
    JSON: an object with subscription and messages (number of deleted messages)
      with --dry-run also dry_run (true), parked (the number of parked messages)
      and consumers

    Examples:
      qmctl sub delete BILLING:late --dry-run
      qmctl sub delete BILLING:late --yes
    """
    with call.client(f"delete subscription {name}") as client:
        row = subscription.found(client, name)
        count = row["behind"]
        if dry:
            _preview_delete(call, row)
            return
        if count:
            loss = f"{messages(count)} on it will be lost"
            confirm(name, f"delete subscription {name}", loss, yes=yes)
        deleted = client.unsubscribe(name)["messages"]
    if call.is_json:
        output.document({"subscription": name, "messages": deleted})
    else:
        output.say(f"deleted subscription {name} and {messages(deleted)}")


def _preview_delete(call: Call, row: Mapping[str, Any]) -> None:
    counts = {"messages": row["behind"]}
    counts |= {key: row.get(key, 0) for key in ("parked", "consumers")}
    words = f"delete subscription {row['subscription']} and {messages(counts['messages'])}"
    words += f", {counts['parked']} of them parked" * bool(counts["parked"])
    if consumers := counts["consumers"]:
        words += f"; {counted(consumers, 'consumer')} would be closed"
    dry_run.show(call, {"subscription": row["subscription"]} | counts, words)


@command()
def healthy(call: Call, name: Name) -> None:
    """Report that a subscriber can process messages again.

    A suspended subscription continues. Parked publications are delivered again if their topic has
    the option "healthy": qmctl topic set TOPIC --republish healthy.

    \b
    JSON: the subscription as in "qmctl sub show", and
      job   the job that delivers parked publications, or null

    Examples:
      qmctl sub healthy BILLING:late
    """
    with call.client(f"resume subscription {name}") as client:
        was = subscription.found(client, name)
        row = client.admin.subscription_healthy(name)
        job = row["job"]
        done = 0
        if job and not call.is_json:
            done = job_run.followed(client, client.admin.job_show(job))["done"]
    if call.is_json:
        output.document(subscription.of(row))
        return
    resumed = f"resumed subscription {name}"
    healthy_ = f"subscription {name} was not suspended"
    sent = f"; delivering {counted(done, 'parked message')} again" if done else ""
    output.say(f"{resumed if was['suspended'] else healthy_}{sent}")
    if left := row.get("parked", 0) - done:
        output.note(
            f"note: {messages(left)} parked; to deliver again: qmctl republish send --to {name}"
        )
