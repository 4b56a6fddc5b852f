"""qmctl group: pause, resume, skip, reassign, close."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from qmgr_protocol import group_id
from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgr_tools.cli import completion, dry_run, output
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.group import missing as group_missing
from qmgr_tools.group import row as group_row
from qmgr_tools.group.group import Group, Queue
from qmgr_tools.queue.queue import Yes
from qmgrd.core.queue.group import refusal as group_refusal

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

JSON = """\b
JSON: the group as it is then, as "qmctl group ls" gives it,
  and changed (false: it was so before)
"""
To = Annotated[
    int | None,
    typer.Option(
        "--to",
        metavar="NUMBER",
        min=1,
        max=GROUP_NUMBER_MAX,
        show_default=False,
        help="That it is to go on with: all below are given up.",
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
        help='Whose it becomes, as "qmctl connection ls" shows it.',
    ),
]


@command(JSON)
def pause(call: Call, queue: Queue, group: Group) -> None:
    """Hand out nothing more of a group; what is out may be settled, other groups go on.

    Examples:
      qmctl group pause FLIGHTS N12345
    """
    _alter(
        call,
        "pause",
        ("paused", "was paused already"),
        queue,
        group,
        lambda client: client.admin.pause_group(queue, group),
    )


@command(JSON)
def resume(call: Call, queue: Queue, group: Group) -> None:
    """Hand out a group again that is paused or parked.

    What failed for good is tried again; to go on behind it, skip it first.

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
    """Have another consumer go on with a group, once what is out of it is settled.

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
JSON: the group as it is then, as "qmctl group ls" gives it
  with --dry-run: dry_run (true), queue, group, group_id, from, to (the first
  number that is given up, and the one that it would go on with), messages
  (of these here: dead letters), absent (of these: never came), ends (whether
  nothing is to come behind them)
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
    """Give up what comes next in a group, so that it goes on behind that; asks first.

    What is there of it becomes a dead letter. Where it never came, the group goes on with the
    lowest number that is there.

    Examples:
      qmctl group skip FLIGHTS N12345 --dry-run
      qmctl group skip FLIGHTS N12345 --to 7
    """
    name = group_id.shown(group)
    doing = f"skip in group {name} of {queue}"
    with _changing(call, doing, queue, group) as client:
        if dry or not yes:
            given_up = _given_up(client, queue, group, to or 0)
            if dry:
                known = {"queue": queue, "group": name, "group_id": group.hex()}
                words = f"skip {given_up.numbers} of group {name} of {queue}: {given_up.loss}"
                dry_run.tell(call, known | given_up.as_dict(), words)
                return
            confirm(name, f"skip {given_up.numbers} of {name} on {queue}", given_up.loss, yes=yes)
        row = client.admin.skip_group(queue, group, to or 0)
    _tell(call, ("skipped in", ""), queue, row)


@command(
    """\b
JSON: the group as it is then, as "qmctl group ls" gives it,
  and changed (false: it was so before)
  with --dry-run: as it is now, and dry_run (true)
"""
)
def close(
    call: Call, queue: Queue, group: Group, yes: Yes = False, dry: dry_run.DryRun = False
) -> None:
    """End a group of which nothing more is to come: its highest message becomes its last.

    What is put into it behind that is refused. What is missing below is still waited for; see
    skip. Asks first.

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
                dry_run.tell(call, {"queue": queue, **now}, f"{doing}: {ends}")
                return
            if not now["closed"]:
                confirm(name, doing, f"{ends}, and what is put behind it is refused", yes=yes)
        row = client.admin.close_group(queue, group)
    _tell(call, ("closed", "was closed already"), queue, row)


def _ends(now: Mapping[str, Any]) -> str:
    """Return where a group would end that is closed as it is *now*."""
    if now["closed"]:
        return f"it is closed already, with number {now['last']}"
    if now["last"]:
        return f"it ends with number {now['last']} already, which stays its last"
    return f"number {now['highest']} becomes its last"


@contextmanager
def _changing(call: Call, doing: str, queue: str, group: bytes) -> "Iterator[Client]":
    """Connect; where the group is not there, one like it is named."""
    with call.client(doing, queue) as client, group_missing.looking(client, doing, queue, group):
        yield client


def _alter(
    call: Call,
    verb: str,
    done: tuple[str, str],
    queue: str,
    group: bytes,
    act: "Callable[[Client], Mapping[str, Any]]",
) -> None:
    """Do to a group what harms nothing: *act*."""
    doing = f"{verb} group {group_id.shown(group)} of {queue}"
    with _changing(call, doing, queue, group) as client:
        row = act(client)
    _tell(call, done, queue, row)


def _tell(call: Call, done: tuple[str, str], queue: str, found: Mapping[str, Any]) -> None:
    """Say what was *done*, or, second, how the group was before, and is."""
    row = group_row.of(found) | {"changed": bool(found.get("changed", True))}
    name = f"group {row['group']} of {queue}"
    if call.is_json:
        output.document(row)
    elif row["changed"]:
        output.say(f"{done[0]} {name}; {group_row.told(row)}")
    else:
        output.say(f"{name} {done[1]}: nothing is changed; {group_row.told(row)}")


class GivenUp(NamedTuple):
    """What a skip gives up of a group: the numbers from first up to stop, exclusive."""

    first: int
    stop: int
    messages: int  # of them here
    last: int = 0  # the number that ends the group, if that is known
    is_kept: bool = False  # known for a while though nothing of it is here

    @property
    def ends(self) -> bool:
        """Whether nothing of the group is to come behind them."""
        return self.last == self.stop - 1

    @property
    def absent(self) -> int:
        """How many of the numbers never came."""
        return self.stop - self.first - self.messages

    @property
    def numbers(self) -> str:
        """The numbers, in words."""
        if self.stop - self.first == 1:
            return f"number {self.first}"
        return f"numbers {self.first} to {self.stop - 1}"

    @property
    def loss(self) -> str:
        """What is lost by it, in words."""
        lost = []
        if self.messages:
            becomes = "becomes a dead letter" if self.messages == 1 else "become dead letters"
            lost.append(f"{messages(self.messages)} {becomes}")
        if self.absent:
            refused = "" if self.ends else ": refused from then on"
            lost.append(f"{counted(self.absent, 'number')} never came{refused}")
        if self.ends:
            over = "" if self.is_kept else ", and is forgotten"
            lost.append(f"the group ends, as {self.last} is its last{over}")
        return ", ".join(lost)

    def as_dict(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "from": self.first,
            "to": self.stop,
            "messages": self.messages,
            "absent": self.absent,
            "ends": self.ends,
        }


def _given_up(client: "Client", queue: str, group: bytes, to: int) -> GivenUp:
    """Return what a skip would give up.

    Raises:
        RequestError: the skip would be refused.
    """
    found = client.admin.show_group(queue, group)
    first, last = int(found["next"]), int(found["last"] or 0)
    numbers = [row["number"] for row in found["members"] if row["number"] >= first]
    stop = to or (first + 1 if found["next_is_here"] else min(numbers, default=0))
    if not stop:
        raise group_refusal.nothing_here(group)
    if stop <= first:
        raise group_refusal.not_ahead(group, first)
    if 0 < last < stop - 1:
        raise group_refusal.beyond_end(group, stop, last)
    here = 0
    for row in _members(client, queue, group, found, stop):
        if row["state"] == "leased":
            raise group_refusal.leased(queue, group, row["number"], row.get("client", ""))
        here += 1
    return GivenUp(first, stop, here, last, found["closed"] or found["state"] == "paused")


def _members(
    client: "Client", queue: str, group: bytes, found: Mapping[str, Any], stop: int
) -> Iterator[dict[str, Any]]:
    """Yield the messages of a group below *stop*, of which the first were *found*."""
    while True:
        yield from (row for row in found["members"] if found["next"] <= row["number"] < stop)
        following = found["next_number"]
        if following is None or following >= stop:
            return
        found = client.admin.show_group(queue, group, following)
