"""qmctl group: ls, show."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol import group_id
from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgr_tools.cli import completion, option, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.group import missing as group_missing
from qmgr_tools.group import row as group_row

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Queue = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        show_default=False,
        autocompletion=completion.local_queues,
        help="The queue of the group.",
    ),
]
Group = Annotated[
    bytes,
    typer.Argument(
        metavar="GROUP",
        show_default=False,
        autocompletion=completion.groups,
        parser=option.group,
        help='The id from "qmctl group ls": text of at most 24 bytes, or 48 hexadecimal digits.',
    ),
]
State = StrEnum("State", {name.upper(): name for name in group_row.STATES})  # type: ignore[misc]
States = Annotated[
    list[State] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        show_default=False,
        help=f"List only groups in this state: {', '.join(group_row.STATES)}. Repeatable.",
    ),
]
Incomplete = Annotated[
    bool, typer.Option("--incomplete", help="List only groups with messages that have not arrived.")
]
From = Annotated[
    int,
    typer.Option(
        "--from",
        metavar="NUMBER",
        min=1,
        max=GROUP_NUMBER_MAX,
        help="Show messages starting with this number.",
    ),
]

COLUMNS = group_row.COLUMNS
STATES_TEXT = "\n".join(f"  {name:<9} {meaning}" for name, meaning in group_row.STATES.items())
ABOUT = f"""\b
A group can be
{STATES_TEXT}

"""
SHOWN_KEYS = """\
  waiting_for             the message that the group waits for, in words
  gaps                    an array of [first, last]: missing numbers
  members                 an array of its messages on the queue, each with
                          number, last, state (ready, leased, delayed), client
                          (the lease's owner), priority, arrival, delivered,
                          failed, put_time, expiry_left_ms
  next_number             the value of --from for the next page, or null
"""


@command(ABOUT + "\b\nJSON: an array of objects with\n" + group_row.JSON_KEYS, watched=True)
def ls(
    call: Call,
    queue: Queue,
    incomplete: Incomplete = False,
    state: States = None,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the message groups of a queue, in order of their ids.

    Conditions support = != < <= > >=. Text matches patterns: --where 'group=N1*'.

    Examples:
      qmctl group ls FLIGHTS
      qmctl group ls FLIGHTS --incomplete --sort -age_ms
      qmctl group ls FLIGHTS --state parked --state paused --watch
    """
    listing = filters.Listing(COLUMNS, group_row.LISTED, columns, where or [], sort, limit)

    def ask(client: "Client") -> list[output.Row]:
        rows = map(group_row.of, client.admin.groups(queue, incomplete=incomplete))
        return listing.rows(row for row in rows if not state or row["state"] in state)

    watch.follow(call, f"list the groups of {queue}", ask, listing.show, queue)


@command(
    ABOUT + '\b\nJSON: an object as in "qmctl group ls", and with\n' + SHOWN_KEYS, watched=True
)
def show(call: Call, queue: Queue, group: Group, from_: From = 1) -> None:
    """Show a group: its state, missing numbers and messages.

    Examples:
      qmctl group show FLIGHTS N12345
      qmctl group show FLIGHTS N12345 --from 1001
    """
    name = group_id.shown(group)
    doing = f"show group {name} of {queue}"

    def ask(client: "Client") -> dict[str, Any]:
        with group_missing.suggesting(client, doing, queue, group):
            return _shown(client.admin.show_group(queue, group, from_))

    watch.follow(call, doing, ask, _show, queue)


def _shown(found: Mapping[str, Any]) -> dict[str, Any]:
    return group_row.of(found) | {
        "waiting_for": found["waiting_for"],
        "gaps": found["gaps"],
        "members": list(map(group_row.member, found["members"])),
        "next_number": found["next_number"],
    }


def _show(found: Mapping[str, Any]) -> None:
    columns = [
        *COLUMNS,
        output.text("waiting_for", "WAITING FOR"),
        output.text("gaps", "MISSING NUMBERS"),
    ]
    output.facts(
        columns, group_row.facts_of(found) | {"gaps": group_row.gaps_text(found["gaps"]) or None}
    )
    if members := found["members"]:
        print()
        rows = list(map(group_row.shown, members))
        used = [column for column in group_row.MEMBERS if any(map(column.cell, rows))]
        output.table(used, rows)
    if following := found["next_number"]:
        output.flush()
        output.note(f"for more messages: --from {following}")
