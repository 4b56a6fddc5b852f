"""qmctl queue: create, ls, show, delete, purge."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import completion, dry_run, output, preview, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import messages
from qmgr_tools.message import selection, selector_hint
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue import backout
from qmgr_tools.queue import origins as queue_origins
from qmgr_tools.queue import state as queue_state
from qmgr_tools.queue.system import PREFIX
from qmgr_tools.subscription import subscription

if TYPE_CHECKING:
    from qmgr_client.blocking import Client


Name = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        show_default=False,
        help="The queue.",
        autocompletion=completion.definitions,
    ),
]
AnyName = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        show_default=False,
        autocompletion=completion.queues,
        help="The queue. @MANAGER is the queue of a link.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

COLUMNS = (
    output.text("queue"),
    output.text("kind"),
    output.text("state"),
    output.count("ready"),
    output.count("leased"),
    output.count("delayed"),
    output.count("held"),
    output.count("depth"),
    output.size("bytes"),
    output.count("consumers"),
    output.count("puts"),
    output.count("fast"),
    output.count("slow"),
    output.count("duplicates"),
    output.count("refused"),
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
    *queue_attribute.COLUMNS,
    output.Column("given", "GIVEN", output.listed),
    output.Column("put_inhibit", "PUT INHIBIT", output.flag),
    output.Column("get_inhibit", "GET INHIBIT", output.flag),
    output.text("breaker"),
    output.count("grouped"),
    output.count("volatile"),
    output.count("volatile_delayed"),
    output.size("volatile_bytes"),
    *map(output.count, ("volatile_from", "next_arrival", "arrived", "maybe_before", "queue_id")),
    output.text("alias_of"),
    output.text("template"),
    output.text("target"),
    output.text("manager"),
)
LISTED = ("queue", "kind", "state", "ready", "leased", "bytes", "consumers", "puts", "acked")
ATTRIBUTES = queue_attribute.COLUMNS
WITH_MESSAGES = ("local", "subscription")  # kinds that store messages at this queue manager
ROUTE = (output.text("waits_on", "messages wait on"), output.text("link"))


AliasOf = Annotated[
    str | None,
    typer.Option(
        metavar="QUEUE",
        show_default=False,
        autocompletion=completion.definitions,
        help="Make this an alias, which is another name for QUEUE.",
    ),
]


@command(options=queue_attribute.options(takes_default=False))
def create(
    call: Call,
    queue: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE",
            show_default=False,
            autocompletion=completion.new_queues,
            help="NAME, or NAME@MANAGER.",
        ),
    ],
    alias_of: AliasOf = None,
    **attributes: Any,
) -> None:
    """Create a queue. Has no effect if the same queue already exists.

    A name has 1 to 64 characters: A-Z a-z 0-9 . _ -. NAME@MANAGER is a remote queue. A link sends
    its messages to the queue NAME of that queue manager. The default of an option comes from a
    template (see: qmctl template) or from the queue manager. An alias is another name for a queue,
    for puts and gets, and has no options.

    JSON: the queue as in "qmctl queue show", without origins.

    Examples:
      qmctl queue create ORDERS
      qmctl queue create ORDERS --depth-max 100000 --lease 5min
      qmctl queue create ORDERS --retry-initial 1s --backout-threshold 5
      qmctl queue create ORDERS@NYC
      qmctl queue create SALES --alias-of ORDERS
    """
    given = queue_attribute.given({"alias_of": alias_of} | attributes)
    subscription.check_no_queue(queue)
    with call.client(f"create queue {queue}") as client:
        existed = not call.is_json and _exists(client, queue)
        try:
            row = with_state(client.admin.queue_create(queue, **given))
        except RequestError as error:
            if error.code != ErrorCode.QUEUE_EXISTS:
                raise
            raise _differs(queue, client.admin.queue_show(queue), given) from error
        if not call.is_json:
            backout.note_missing(client, row.get("backout_queue"))
    if call.is_json:
        output.document(row)
    else:
        output.say(f"queue {queue} already exists" if existed else f"created queue {queue}")


def _exists(client: "Client", queue: str) -> bool:
    try:
        client.admin.queue_show(queue)
    except RequestError as error:
        if error.code != ErrorCode.QUEUE_UNKNOWN:
            raise
        return False
    return True


def _differs(queue: str, row: Mapping[str, Any], asked: Mapping[str, Any]) -> Failure:
    """Returns the failure to create *queue*, which exists with other attributes."""
    given = row.get("given", ())
    whys = [
        f"{column.title.lower()} is {column.cell(row)}{' by default' * (column.key not in given)}, "
        f"requested {column.cell(asked) or 'the default'}"
        for column in (*queue_attribute.COLUMNS, output.text("alias_of"))
        if (column.key in asked) != (column.key in given)
        or (column.key in asked and row.get(column.key) != asked[column.key])
    ]
    return Failure(
        Exit.REFUSED,
        f"cannot create queue {queue}",
        f"it already exists with other attributes: {'; '.join(whys)}",
        f"to change them: qmctl queue alter {queue}{queue_attribute.options_text(asked)}",
    )


def with_state(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row of a queue with its state in one or two words."""
    return {**row, "state": queue_state.of(row)}


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
    system: Annotated[
        bool, typer.Option("--system", help="Include the reserved queues SYSTEM.*.")
    ] = False,
) -> None:
    """List the queues in order of name.

    Conditions support = != < <= > >=. Text matches patterns: --where 'queue=app.*'.

    JSON: an array of objects as in "qmctl queue show", without origins.

    Examples:
      qmctl queue ls
      qmctl queue ls --where 'ready>0' --sort -ready --limit 10
      qmctl queue ls --columns queue,depth,bytes --watch 5s
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call,
        "list the queues",
        lambda client: listing.rows(map(with_state, _listed(client, system))),
        listing.show,
    )


def _listed(client: "Client", system: bool) -> Sequence[Mapping[str, Any]]:
    rows = client.admin.queue_list()
    return rows if system else [row for row in rows if not row["queue"].startswith(PREFIX)]


@command(watched=True)
def show(call: Call, queue: AnyName, all_origins: queue_origins.All = False) -> None:
    """Show a queue: its attributes, counters and table of origins.

    \b
    JSON: an object with
      queue, kind (local, remote, transmission, alias), queue_id
      state                           open, full, no puts, no gets, closed (both),
                                      breaker (open, or probing)
      target, manager, waits_on       target of a remote queue; the transmission
                                      queue that holds its messages
      alias_of                        queue of an alias
      depth_max, bytes_max, message_max_bytes, overflow, lease_ms, expiry_max_ms,
      expiry_action, dedup_retention_ms, group_retention_ms, group_incomplete_ms,
      retry_initial_ms, retry_factor,
      retry_max_ms, retry_jitter_percent, backout_threshold, delivery_limit,
      backout_queue,
      breaker_percent, breaker_window_ms, breaker_messages_min, breaker_pause_ms,
      exclusive, transfer_in, accounting, unused_expiry_ms,
      priority_default                effective attributes; see alter
      unused_ms                       idle time, if unused_expiry_ms is set
      given                           attributes set for the queue itself
      template                        the pattern of the template that applies
      put_inhibit, get_inhibit        whether puts, gets are inhibited; see alter
      depth, bytes, grouped           messages; size; messages in groups
      ready, leased                   messages ready for delivery; leased messages
      delayed, held                   delayed messages; puts of open units of work
      volatile, volatile_delayed,
      volatile_bytes, volatile_from   non-persistent messages; their lowest number
      breaker                         closed, open (delivery pauses) or probing
      consumers, next_arrival         number of consumers; number of the next put
      arrived                         all arrivals up to this number are complete
      maybe_before                    after a crash, messages that arrived before
                                      this number may be delivered again
      puts = fast + slow              stored without, with use of the UID index
      duplicates, refused             puts of known UIDs; puts refused otherwise
      delivered, acked, returned      deliveries; acknowledgements; returns
      purged, damaged                 purged messages; messages with bad checksums
      expired, dead, moved, lost      messages that expired, became dead letters,
                                      were moved, were lost in a restart
      origins                         an object: the highest timestamp by origin
      origins_next                    the last origin if there are more, or null

    Examples:
      qmctl queue show ORDERS
      qmctl queue show ORDERS --watch
      qmctl queue show ORDERS -o json
    """

    def ask(client: "Client") -> dict[str, Any]:
        row = with_state(client.admin.queue_show(queue))
        row = queue_origins.complete(client, row) if all_origins else row
        return row if call.is_json else row | _route(client, row)

    watch.follow(call, f"show queue {queue}", ask, _show, queue)


def _show(row: Mapping[str, Any]) -> None:
    if row.get("kind") == "subscription":
        subscription.show_row(subscription.of_queue(row))
        return
    output.facts((*(column for column in COLUMNS if column not in ATTRIBUTES), *ROUTE), row)
    for section, columns in queue_attribute.SECTIONS.items():
        if any(column.key in row for column in columns):
            output.facts(columns, row, f"\n{section}")
    queue_origins.show(row)


def _route(client: "Client", row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the state of the link that sends the messages of a remote queue."""
    waits_on = row.get("waits_on")
    if not waits_on:
        return {}
    try:
        link = client.admin.link_show(waits_on.removeprefix("@"))
    except RequestError:
        return {}
    parts = (part for part in (link.get("state"), link.get("error")) if part)
    return {"link": ": ".join(parts)}


@command()
def delete(
    call: Call,
    queue: Name,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also delete its messages, which are then lost.")
    ] = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Delete a queue, with --purge even if it holds messages.

    The command asks for confirmation if messages would be lost, unless --yes is given.

    \b
    JSON: an object with queue and messages (the number of deleted messages)
      with --dry-run also dry_run (true), bytes, leased (the number of leased
      messages) and consumers

    Examples:
      qmctl queue delete ORDERS
      qmctl queue delete ORDERS --purge --dry-run
      qmctl queue delete ORDERS --purge --yes
    """
    with call.client(f"delete queue {queue}", queue) as client:
        row = client.admin.queue_show(queue)
        depth = _depth(row)
        if row.get("kind") == "subscription":
            why, remedy = "it is a subscription", f"delete it with: qmctl sub delete {queue}"
            raise Failure(Exit.REFUSED, f"cannot delete queue {queue}", why, remedy)
        if depth and not purge:
            raise Failure(
                Exit.REFUSED,
                f"cannot delete queue {queue}",
                f"it holds {messages(depth)}",
                "get the messages, or delete the queue with --purge",
            )
        rows = client.admin.queue_list()
        aliases = [one["queue"] for one in rows if one.get("alias_of") == queue]
        if dry:
            dry_run.delete_queue(call, row)
            _note_aliases(call, aliases, "would have")
            return
        if depth:
            confirm(
                queue, f"delete queue {queue}", f"{messages(depth)} on it will be lost", yes=yes
            )
        # If the queue was empty, the user did not confirm the loss of messages that arrived since.
        deleted = client.admin.queue_delete(queue, purge=purge and (bool(depth) or yes))["messages"]
    _show_count(call, queue, deleted, "deleted queue {queue} and {messages}")
    _note_aliases(call, aliases, "has")


def _note_aliases(call: Call, aliases: list[str], has: str) -> None:
    """Writes a note about each alias of a deleted queue."""
    for alias in aliases if not call.is_json else ():
        output.note(
            f"note: alias {alias} {has} no target; to delete it: qmctl queue delete {alias}"
        )


@command()
def purge(
    call: Call,
    queue: Name,
    where: selection.Where = "",
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Delete the messages of a queue, except leased ones. Asks for confirmation.

    Delayed messages are also deleted. With --where, only the selected messages are deleted.

    \b
    JSON: an object with queue and messages (the number of deleted messages)
      with --dry-run also dry_run (true), bytes (null if unknown because some
      messages are leased), bytes_max (including leased messages), leased
      with --where and --dry-run: dry_run, queue, messages, leased, first (UIDs)

    Examples:
      qmctl queue purge ORDERS --dry-run
      qmctl queue purge ORDERS
      qmctl queue purge ORDERS --where "city = 'Paris'" --dry-run
    """
    with call.client(f"purge queue {queue}", queue) as client:
        row = client.admin.queue_show(queue)
        # A purge of an alias is refused: the user must name the queue.
        if row.get("kind") == "alias" or (dry and not (where and row.get("kind") in WITH_MESSAGES)):
            dry_run.purge_queue(call, row)
            return
        if dry:
            found = preview.preview(client, queue, where, with_delayed=True)
            preview.show(call, found, {"queue": queue}, f"purge {{messages}} from queue {queue}")
            return
        _confirm_purge(client, row, where, yes)
        purged = selector_hint.purged(client, queue, where)
    _show_count(call, queue, purged, "purged {messages} from queue {queue}")


def _confirm_purge(client: "Client", row: Mapping[str, Any], where: str, yes: bool) -> None:
    """Asks for confirmation of a purge with the number of messages, unless *yes*."""
    if yes:
        return
    queue, count = row["queue"], dry_run.purgeable(row)
    if where:
        count = preview.preview(client, queue, where, with_delayed=True).messages
    confirm(queue, f"purge queue {queue}", f"{messages(count)} will be lost", yes=yes)


def _depth(row: Mapping[str, Any]) -> int:
    return int(row.get("depth", 0))


def _show_count(call: Call, queue: str, count: int | None, words: str) -> None:
    if call.is_json:
        output.document({"queue": queue, "messages": count})
    else:
        output.say(words.format(queue=queue, messages=messages(count)))
