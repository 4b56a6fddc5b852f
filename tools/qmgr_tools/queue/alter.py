"""qmctl queue alter: other limits for a queue, its puts and gets inhibited or allowed."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from qmgr_tools.cli import dry_run, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue import backout
from qmgr_tools.queue.queue import COLUMNS, AliasOf, AnyName, with_state

PutInhibit = Annotated[
    bool | None,
    typer.Option(
        "--put-inhibit/--no-put-inhibit",
        help="Refuse puts, or take them again.",
        show_default=False,
    ),
]
GetInhibit = Annotated[
    bool | None,
    typer.Option(
        "--get-inhibit/--no-get-inhibit", help="Hand nothing out, or go on.", show_default=False
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
    """Change options of a queue that is in use; in force at once, and over restarts.

    The word "default" takes an option back: its template has it then, or the queue manager. A limit
    below what is on the queue refuses puts until that is gone, and removes nothing. Inhibited puts
    wait on their link if they come over one; consumers of an inhibited queue stay and wait. What is
    leased may be settled.

    NAME@MANAGER can have its puts inhibited; @MANAGER holds what waits for that link, and its gets
    are the link's.

    \b
    JSON: the queue, as "qmctl queue show" gives it, without origins, and
      changed   an object: [before, after] of each option that is another now
    With --dry-run the queue as it is, dry_run (true), and changed, where null
    is a default that only the queue manager knows.

    Examples:
      qmctl queue alter ORDERS --depth-max 5000 --lease 2min
      qmctl queue alter ORDERS --put-inhibit      # no more puts; drain it
      qmctl queue alter ORDERS --no-put-inhibit   # go on
      qmctl queue alter ORDERS --depth-max default --dry-run
      qmctl queue alter @NYC --get-inhibit        # keep what is bound for NYC
    """
    inhibits = {"put_inhibit": put_inhibit, "get_inhibit": get_inhibit}
    changes = queue_attribute.given(attributes | inhibits | {"alias_of": alias_of})
    if not changes:
        raise usage(
            f"nothing is to be altered on queue {queue}",
            "no option says what",
            "as in: --depth-max 5000, --put-inhibit; see --help",
        )
    with call.client(f"alter queue {queue}", queue) as client:
        if dry:
            row: Mapping[str, Any] = _altered(queue, client.admin.queue_show(queue), changes)
        else:
            row = client.admin.queue_alter(queue, **changes)
        if not call.is_json:
            backout.note_missing(client, changes.get("backout_queue"))
    _tell(call, queue, row, changes, is_dry=dry)


def _altered(queue: str, row: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the *row* of a queue with what *changes* would change.

    Raises:
        RequestError: VALUE_INVALID, as the daemon would say it.
    """
    from qmgrd.core.catalogue import attributes  # takes 100 ms

    attributes.altered(queue, {"kind": row["kind"]}, changes)
    changed = {}
    for key, after in changes.items():
        is_default = after is None and key not in row["given"]
        if row.get(key) != after and not is_default:
            changed[key] = [row.get(key), after]
    shown = {key: row[key] for key in row if key not in ("origins", "origins_next")}
    return shown | {"changed": changed}


def _tell(
    call: Call, queue: str, row: Mapping[str, Any], asked: Mapping[str, Any], *, is_dry: bool
) -> None:
    told = "; ".join(_changes(row.get("changed", {})))
    already = ", ".join(_already(row, asked))
    what = f"queue {queue}: {told}" if told else ""
    if is_dry and (call.is_json or told):
        dry_run.tell(call, with_state(row), f"alter {what}")
    elif call.is_json:
        output.document(with_state(row))
    else:
        output.say(f"altered {what}" if told else f"nothing to change on queue {queue}: {already}")
    if not call.is_json:
        after = {key: values[1] for key, values in row.get("changed", {}).items()}
        for words in _over({**row, **after}, "would be" if is_dry else "are"):
            output.note(words)


def _changes(changed: dict[str, list[Any]]) -> Iterator[str]:
    """Yield what changed from what to what, in words."""
    for column in COLUMNS:
        if column.key in changed:
            before, after = (column.cell({column.key: value}) for value in changed[column.key])
            yield f"{column.title.lower()} {before} -> {after or 'the default'}"


def _already(row: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is as it was *asked*, in words."""
    for column in COLUMNS:
        if column.key in asked:
            is_default = " by default" * (asked[column.key] is None)
            yield f"{column.title.lower()} is {column.cell(row)}{is_default} already"


def _over(row: Mapping[str, Any], are: str) -> Iterator[str]:
    """Yield why puts *are* refused although nobody inhibits them."""
    for limit, held in (("depth_max", "depth"), ("bytes_max", "bytes")):
        if row.get(held, 0) > (row.get(limit) or row.get(held, 0)):
            most = next(column for column in COLUMNS if column.key == limit).cell(row)
            yield (
                f"note: it holds {messages(row['depth'])} of {output.size('bytes').cell(row)}, "
                f"over {limit.replace('_', ' ')} {most}: puts {are} refused until it is drained"
            )
            return
