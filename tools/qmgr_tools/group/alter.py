"""qmctl group: pause, resume, skip, reassign, close."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from qmgr_protocol import group_id
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgr_tools.cli import completion, dry_run, output
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.group import missing as group_missing
from qmgr_tools.group import row as group_row
from qmgr_tools.group.group import Group, Queue
from qmgr_tools.queue.queue import Yes

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

JSON = """\b
JSON: the group after the command, as in "qmctl group ls",
  and changed (false if the group was already in that state)
"""
To = Annotated[
    int | None,
    typer.Option(
        "--to",
        metavar="NUMBER",
        min=1,
        max=GROUP_NUMBER_MAX,
        show_default=False,
        help="The number to continue with. All lower numbers are skipped.",
    ),
]
Connection = Annotated[
    int | None,
    typer.Option(
        metavar="ID",
        min=1,
        max=2**63 - 1,
        show_default="any other",
        autocompletion=completion.connections,
        help="The connection that takes over; see: qmctl connection ls.",
    ),
]


@command(JSON)
def pause(call: Call, queue: Queue, group: Group) -> None:
    """Pause a group: its messages are no longer delivered. Leased messages can be settled.

    Examples:
      qmctl group pause FLIGHTS N12345
    """
    _alter(
        call,
        "pause",
        ("paused", "was already paused"),
        queue,
        group,
        lambda client: client.admin.pause_group(queue, group),
    )


@command(JSON)
def resume(call: Call, queue: Queue, group: Group) -> None:
    """Resume a group that is paused or parked.

    The failed message of a parked group is tried again. To continue after it, skip it first.

    Examples:
      qmctl group resume FLIGHTS N12345
    """
    _alter(
        call,
        "resume",
        ("resumed", "was neither paused nor parked"),
        queue,
        group,
        lambda client: client.admin.resume_group(queue, group),
    )


@command(JSON)
def reassign(call: Call, queue: Queue, group: Group, connection: Connection = None) -> None:
    """Assign a group to another consumer after its leased messages are settled.

    Examples:
      qmctl group reassign FLIGHTS N12345
      qmctl group reassign FLIGHTS N12345 --connection 17
    """
    _alter(
        call,
        "reassign",
        ("reassigned", ""),
        queue,
        group,
        lambda client: client.admin.reassign_group(queue, group, connection or 0),
    )


@command(
    """\b
JSON: the group after the command, as in "qmctl group ls"
  with --dry-run: dry_run (true), queue, group, group_id, from (the first
  number to skip), to (the number to continue with), messages (how many
  would become dead letters), absent (how many never arrived), ends (whether
  the group would end)
"""
)
def skip(
    call: Call,
    queue: Queue,
    group: Group,
    to: To = None,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Skip the next message of a group, so that the group continues. Asks for confirmation.

    If the message is on the queue, it becomes a dead letter. If it never arrived, the group
    continues with the lowest number on the queue.

    Examples:
      qmctl group skip FLIGHTS N12345 --dry-run
      qmctl group skip FLIGHTS N12345 --to 7
    """
    name = group_id.shown(group)
    doing = f"skip in group {name} of {queue}"
    with _changing(call, doing, queue, group) as client:
        if dry or not yes:
            skipped = _skipped(client, queue, group, to or 0)
            if dry:
                known = {"queue": queue, "group": name, "group_id": group.hex()}
                words = f"skip {skipped.numbers} of group {name} of {queue}: {skipped.effect}"
                dry_run.show(call, known | skipped.as_dict(), words)
                return
            confirm(name, f"skip {skipped.numbers} of {name} on {queue}", skipped.effect, yes=yes)
        row = client.admin.skip_group(queue, group, to or 0)
    _show(call, ("skipped in", ""), queue, row)


@command(
    """\b
JSON: the group after the command, as in "qmctl group ls",
  and changed (false if the group was already in that state)
  with --dry-run: the unchanged group, and dry_run (true)
"""
)
def close(
    call: Call, queue: Queue, group: Group, yes: Yes = False, dry: dry_run.DryRun = False
) -> None:
    """Close a group: its highest message becomes its last. Asks for confirmation.

    Later puts to the group are refused. The group still waits for missing lower numbers; see skip.

    Examples:
      qmctl group close FLIGHTS N12345 --dry-run
      qmctl group close FLIGHTS N12345
    """
    name = group_id.shown(group)
    doing = f"close group {name} of {queue}"
    with _changing(call, doing, queue, group) as client:
        if dry or not yes:
            now = group_row.of(client.admin.show_group(queue, group))
            ends = _ends(now)
            if dry:
                dry_run.show(call, {"queue": queue, **now}, f"{doing}: {ends}")
                return
            if not now["closed"]:
                confirm(name, doing, f"{ends}, and later puts are refused", yes=yes)
        row = client.admin.close_group(queue, group)
    _show(call, ("closed", "was already closed"), queue, row)


def _ends(now: Mapping[str, Any]) -> str:
    """Returns a sentence about the number with which the group of row *now* would end."""
    if now["closed"]:
        return f"it is already closed, with number {now['last']}"
    if now["last"]:
        return f"its last number is already known: {now['last']}"
    return f"number {now['highest']} becomes its last"


@contextmanager
def _changing(call: Call, doing: str, queue: str, group: bytes) -> "Iterator[Client]":
    """Yields a client. If the group does not exist, the failure suggests a similar group."""
    with call.client(doing, queue) as client, group_missing.suggesting(client, doing, queue, group):
        yield client


def _alter(
    call: Call,
    verb: str,
    done: tuple[str, str],
    queue: str,
    group: bytes,
    act: "Callable[[Client], Mapping[str, Any]]",
) -> None:
    """Runs *act*, a change that needs no confirmation, and prints the result."""
    doing = f"{verb} group {group_id.shown(group)} of {queue}"
    with _changing(call, doing, queue, group) as client:
        row = act(client)
    _show(call, done, queue, row)


def _show(call: Call, done: tuple[str, str], queue: str, found: Mapping[str, Any]) -> None:
    """Prints the group. *done* has the words for a change and for no change."""
    row = group_row.of(found) | {"changed": bool(found.get("changed", True))}
    name = f"group {row['group']} of {queue}"
    if call.is_json:
        output.document(row)
    elif row["changed"]:
        output.say(f"{done[0]} {name}; {group_row.summary(row)}")
    else:
        output.say(f"{name} {done[1]}; {group_row.summary(row)}")


class Skipped(NamedTuple):
    """The numbers that a skip would drop: from first up to, but excluding, stop."""

    first: int
    stop: int
    messages: int  # number of skipped messages that are on the queue
    last: int = 0  # number of the last message of the group; 0 if unknown
    is_kept: bool = False  # whether the daemon remembers the group after its end

    @property
    def ends(self) -> bool:
        """Whether the skipped numbers include the last number of the group."""
        return self.last == self.stop - 1

    @property
    def absent(self) -> int:
        """The number of skipped messages that never arrived."""
        return self.stop - self.first - self.messages

    @property
    def numbers(self) -> str:
        """The skipped numbers in words."""
        if self.stop - self.first == 1:
            return f"number {self.first}"
        return f"numbers {self.first} to {self.stop - 1}"

    @property
    def effect(self) -> str:
        """The effect of the skip in words."""
        effects = []
        if self.messages:
            becomes = "becomes a dead letter" if self.messages == 1 else "become dead letters"
            effects.append(f"{messages(self.messages)} {becomes}")
        if self.absent:
            refused = "" if self.ends else " and would be refused"
            effects.append(f"{counted(self.absent, 'number')} never arrived{refused}")
        if self.ends:
            forgotten = "" if self.is_kept else ", and is forgotten"
            effects.append(f"the group ends, because {self.last} is its last number{forgotten}")
        return ", ".join(effects)

    def as_dict(self) -> dict[str, Any]:
        """Returns the object for scripts."""
        return {
            "from": self.first,
            "to": self.stop,
            "messages": self.messages,
            "absent": self.absent,
            "ends": self.ends,
        }


def _skipped(client: "Client", queue: str, group: bytes, to: int) -> Skipped:
    """Returns the numbers that a skip would drop.

    Raises:
        RequestError: VALUE_INVALID or GROUP_IN_USE if the skip would be refused.
    """
    found = client.admin.show_group(queue, group)
    first, last = int(found["next"]), int(found["last"] or 0)
    numbers = [row["number"] for row in found["members"] if row["number"] >= first]
    stop = to or (first + 1 if found["next_is_here"] else min(numbers, default=0))
    name = group_id.shown(group)
    if not stop:
        raise _value_error(f"group {name} has no messages on the queue; name the number to skip to")
    if stop <= first:
        raise _value_error(f"group {name} is at number {first}; skip to a higher one")
    if 0 < last < stop - 1:
        raise _value_error(
            f"group {name} ends with number {last}, so it cannot continue with {stop}; "
            f"skip to {last + 1} at most, which ends the group"
        )
    here = 0
    for row in _members(client, queue, group, found, stop):
        if row["state"] == "leased":
            client_name = row.get("client") or "a client without a name"
            why = (
                f"number {row['number']} of group {name} on queue {queue} is leased to "
                f"{client_name}"
            )
            raise RequestError(ErrorCode.GROUP_IN_USE, why)
        here += 1
    return Skipped(first, stop, here, last, found["closed"] or found["state"] == "paused")


def _value_error(why: str) -> RequestError:
    return RequestError(ErrorCode.VALUE_INVALID, why)


def _members(
    client: "Client", queue: str, group: bytes, found: Mapping[str, Any], stop: int
) -> Iterator[dict[str, Any]]:
    """Yields the messages of a group below *stop*. *found* is the first page."""
    while True:
        yield from (row for row in found["members"] if found["next"] <= row["number"] < stop)
        following = found["next_number"]
        if following is None or following >= stop:
            return
        found = client.admin.show_group(queue, group, following)
