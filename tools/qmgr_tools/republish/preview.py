"""Previews the effect of a job on parked publications for each subscription."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import option, output, progress
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.humanize import counted, messages

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

NOW, ON_RETURN, NO_ROOM = "now", "on return", "no room"
FIRST = 3  # number of UIDs to show for each subscription
SHOWN_MAX = 100  # maximum number of subscriptions to show to people
COLUMNS = (
    output.whole("subscription"),
    output.count("messages"),
    output.size("bytes"),
    output.text("outcome", "DELIVERED"),
    output.Column("first", "FIRST OF THEM", output.listed),
)


class RepublishPreview(NamedTuple):
    """The effect of a job on parked publications."""

    now: int
    awaited: int
    stay: int
    rows: list[dict[str, Any]]


def preview(
    client: "Client",
    uid: str | None,
    where: str,
    names: list[str],
    limit: int = 0,
    *,
    is_delete: bool = False,
) -> RepublishPreview:
    """Returns the effect of a job on up to *limit* parked publications (0 means all).

    Args:
        uid, where, names: The selection, as for the job.
        is_delete: Whether the job deletes the publications. In that case no publication waits.
    """
    subscribers = _Subscribers(client)
    counts = {NOW: 0, ON_RETURN: 0, NO_ROOM: 0}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    with progress.spinner("reading parked publications"):
        for parked in _selected(client, uid, where, names):
            name, size = parked["subscription"], parked["bytes"]
            outcome = NOW if is_delete else subscribers.outcome(name)
            counts[outcome] += 1
            row = rows.setdefault(
                (name, outcome),
                {"subscription": name, "messages": 0, "bytes": 0, "outcome": outcome, "first": []},
            )
            row["messages"] += 1
            row["bytes"] += size
            row["first"] += [parked["uid"]] * (len(row["first"]) < FIRST)
            if counts[NOW] == limit > 0:
                break
    now, awaited, stay = counts.values()
    return RepublishPreview(now, awaited, stay, [rows[key] for key in sorted(rows)])


def _selected(
    client: "Client", uid: str | None, where: str, names: list[str]
) -> Iterator[Mapping[str, Any]]:
    wanted = None if uid is None else option.uid(uid)
    return chain.from_iterable(
        client.admin.republish_list(where=where, uid=wanted, subscription=name)
        for name in dict.fromkeys(names or [""])
    )


class _Subscribers:
    """The subscriptions of parked publications, which are read when needed."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._room: dict[str, int | None] = {}  # room by subscription; None without a consumer

    def outcome(self, name: str) -> str:
        """Returns the outcome of one more publication for the subscription *name*."""
        if name not in self._room:
            self._room[name] = self._ask(name)
        room = self._room[name]
        if room is None:
            return ON_RETURN
        self._room[name] = room - 1
        return NOW if room > 0 else NO_ROOM

    def _ask(self, name: str) -> int | None:
        try:
            row = self._client.admin.queue_show(name)
        except RequestError as error:
            if error.code != ErrorCode.SUBSCRIPTION_UNKNOWN:
                raise
            return None  # The subscription was deleted in the meantime.
        if not row["consumers"]:
            return None
        if row["bytes"] >= row["bytes_max"]:
            return 0
        room: int = row["depth_max"] - sum(row[key] for key in ("depth", "delayed", "held"))
        return room


def wait(count: int, one: str, several: str) -> str:
    """Returns a sentence about waiting messages, with the verb for *one* or for *several*."""
    if count == 1:
        return f"1 message {one} until its subscriber returns"
    return f"{messages(count)} {several} until their subscribers return"


def show(call: Call, found: RepublishPreview, *, is_delete: bool = False) -> None:
    """Prints the preview *found*."""
    if call.is_json:
        counts = {"messages": found.now}
        if not is_delete:
            counts |= {"awaited": found.awaited, "stay": found.stay}
        rows = [
            {key: value for key, value in row.items() if not is_delete or key != "outcome"}
            for row in found.rows
        ]
        output.document({"dry_run": True} | counts | {"subscriptions": rows})
        return
    words = f"would {'delete' if is_delete else 'deliver'} {messages(found.now)}"
    if found.awaited:
        words += f"; {wait(found.awaited, 'would wait', 'would wait')}"
    if found.stay:
        words += f"; {messages(found.stay)} would stay because there is no room"
    output.say(f"{words}; nothing changed")
    if found.rows:
        columns = [column for column in COLUMNS if not is_delete or column.key != "outcome"]
        output.table(columns, found.rows[:SHOWN_MAX])
    if len(found.rows) > SHOWN_MAX:
        output.flush()
        output.note(f"{counted(len(found.rows) - SHOWN_MAX, 'more row')}; to show all: -o json")
