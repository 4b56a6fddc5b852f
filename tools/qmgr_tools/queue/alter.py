"""qmctl queue alter: changes the attributes of a queue, and inhibits or allows puts and gets."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import dry_run, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue import backout
from qmgr_tools.queue.queue import COLUMNS, AliasOf, AnyName, with_state

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

PutInhibit = Annotated[
    bool | None,
    typer.Option(
        "--put-inhibit/--no-put-inhibit", help="Inhibit puts, or allow them.", show_default=False
    ),
]
GetInhibit = Annotated[
    bool | None,
    typer.Option(
        "--get-inhibit/--no-get-inhibit", help="Inhibit gets, or allow them.", show_default=False
    ),
]


@command(options=queue_attribute.options(takes_default=True))
def alter(
    call: Call,
    queue: AnyName,
    put_inhibit: PutInhibit = None,
    get_inhibit: GetInhibit = None,
    alias_of: AliasOf = None,
    dry: dry_run.DryRun = False,
    **attributes: Any,
) -> None:
    """Change options of a queue, immediately and permanently. The queue may be in use.

    The word "default" resets an option to the value of its template, or to the queue manager's
    default. If a limit is lower than the current contents, no message is removed, but puts are
    refused until the queue is below the limit. If puts are inhibited, messages that arrive over a
    link wait on that link. If gets are inhibited, consumers stay connected and wait, and leased
    messages can still be settled.

    For NAME@MANAGER you can inhibit puts. To pause a link, inhibit gets on its queue @MANAGER.

    \b
    JSON: the queue as in "qmctl queue show", without origins, and
      changed   an object: [before, after] of each changed option
    With --dry-run: the unchanged queue, dry_run (true), and changed. In changed,
    null stands for the default.

    Examples:
      qmctl queue alter ORDERS --depth-max 5000 --lease 2min
      qmctl queue alter ORDERS --put-inhibit      # refuse puts to drain the queue
      qmctl queue alter ORDERS --no-put-inhibit   # accept puts again
      qmctl queue alter ORDERS --depth-max default --dry-run
      qmctl queue alter @NYC --get-inhibit        # keep messages for NYC here
    """
    inhibits = {"put_inhibit": put_inhibit, "get_inhibit": get_inhibit}
    changes = queue_attribute.given(attributes | inhibits | {"alias_of": alias_of})
    if not changes:
        raise usage(
            f"cannot alter queue {queue}",
            "no option is given",
            "examples: --depth-max 5000, --put-inhibit; see --help",
        )
    with call.client(f"alter queue {queue}", queue) as client:
        if dry:
            row: Mapping[str, Any] = _altered(client.admin.queue_show(queue), changes)
        else:
            row = _alter(client, queue, changes)
        if not call.is_json:
            backout.note_missing(client, changes.get("backout_queue"))
    _show(call, queue, row, changes, is_dry=dry)


def _alter(client: "Client", queue: str, changes: dict[str, Any]) -> Mapping[str, Any]:
    """Applies *changes*, and returns the row of the queue.

    Raises:
        RequestError: VALUE_INVALID if the queue lacks one of the attributes, with the text of a
            dry run.
    """
    try:
        return client.admin.queue_alter(queue, **changes)
    except RequestError as error:
        if error.code == ErrorCode.VALUE_INVALID:
            queue_attribute.check_known(client.admin.queue_show(queue), changes)
        raise


def _altered(row: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the *row* of a queue with the effect of *changes*.

    Raises:
        RequestError: VALUE_INVALID if a queue of this kind lacks one of the attributes, or if a
            value is invalid.
    """
    queue_attribute.check_known(row, changes)
    queue_attribute.check_values(row["queue"], changes)
    changed = {}
    for key, after in changes.items():
        is_default = after is None and key not in row["given"]
        if row.get(key) != after and not is_default:
            changed[key] = [row.get(key), after]
    shown = {key: row[key] for key in row if key not in ("origins", "origins_next")}
    return shown | {"changed": changed}


def _show(
    call: Call, queue: str, row: Mapping[str, Any], asked: Mapping[str, Any], *, is_dry: bool
) -> None:
    changes = "; ".join(_changes(row.get("changed", {})))
    already = ", ".join(_already(row, asked))
    what = f"queue {queue}: {changes}" if changes else ""
    if is_dry and (call.is_json or changes):
        dry_run.show(call, with_state(row), f"alter {what}")
    elif call.is_json:
        output.document(with_state(row))
    else:
        output.say(f"altered {what}" if changes else f"queue {queue} is unchanged: {already}")
    if not call.is_json:
        after = {key: values[1] for key, values in row.get("changed", {}).items()}
        for words in _over_limit({**row, **after}, "would be" if is_dry else "are"):
            output.note(words)


def _changes(changed: dict[str, list[Any]]) -> Iterator[str]:
    """Yields each change from the old to the new value in words."""
    for column in COLUMNS:
        if column.key in changed:
            before, after = (column.cell({column.key: value}) for value in changed[column.key])
            yield f"{column.title.lower()} {before} -> {after or 'the default'}"


def _already(row: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """Yields each attribute that already has the *asked* value, in words."""
    for column in COLUMNS:
        if column.key in asked:
            default = " by default" * (asked[column.key] is None)
            yield f"{column.title.lower()} is already {column.cell(row)}{default}"


def _over_limit(row: Mapping[str, Any], are: str) -> Iterator[str]:
    """Yields a note if puts *are* or would be refused because the contents exceed a limit."""
    for limit, held in (("depth_max", "depth"), ("bytes_max", "bytes")):
        if row.get(held, 0) > (row.get(limit) or row.get(held, 0)):
            most = next(column for column in COLUMNS if column.key == limit).cell(row)
            yield (
                f"note: the queue holds {messages(row['depth'])} "
                f"({output.size('bytes').cell(row)}), more than {limit.replace('_', ' ')} {most}: "
                f"puts {are} refused until the queue is below the limit"
            )
            return
