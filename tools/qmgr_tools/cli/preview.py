"""Counts the messages that a command would affect, and shows the first ones, for --dry-run."""

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from qmgr_tools.cli import output, progress
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.message import selector_hint
from qmgr_tools.message import text as message_text

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message

SHOWN = 5


class MessagePreview(NamedTuple):
    """The messages that a command would affect."""

    messages: int
    leased: int  # number of selected messages that would stay because they are leased
    first: "list[Message]"
    stay: dict[str, int]  # number of other messages that would stay, by reason


def preview(
    client: "Client",
    queue: str,
    where: str,
    limit: int = 0,
    stay_reason: "Callable[[Message], str] | None" = None,
    *,
    with_delayed: bool = False,
) -> MessagePreview:
    """Counts the messages on *queue* that *where* selects, up to *limit* (0 means all).

    Args:
        with_delayed: Whether a selector also applies to delayed messages.
        stay_reason: A function that returns the reason why a selected message would stay, or "".
    """
    if not where and stay_reason is None:
        row = client.admin.queue_show(queue)
        first = [message for message in client.browse(queue, SHOWN) if not message.leased]
        ready = int(row.get("ready", 0))
        return MessagePreview(min(ready, limit or ready), int(row.get("leased", 0)), first, {})
    count = leased = 0
    first = []
    stay: dict[str, int] = {}
    with progress.spinner(f"reading {queue}"):
        selected = client.browse(queue, where=where or None)
        if with_delayed:
            selected = chain(selected, client.browse(queue, where=where or None, delayed=True))
        for message in selected:
            if message.leased:
                leased += 1
            elif why := stay_reason(message) if stay_reason else "":
                stay[why] = stay.get(why, 0) + 1
            else:
                count += 1
                first += [message] if count <= SHOWN else []
            if count == limit > 0:
                break
    if not (count or leased or stay):
        selector_hint.show(client, queue, where)
    return MessagePreview(count, leased, first, stay)


def show(
    call: Call, found: MessagePreview, facts: dict[str, Any], words: str, waits: str = ""
) -> None:
    """Prints the effect of the command.

    Args:
        words: The action, as in "move {messages} from A to B".
        waits: The reason why the command would wait, or "".
    """
    if call.is_json:
        first = [None if message.uid is None else str(message.uid) for message in found.first]
        counts = {"messages": found.messages, "leased": found.leased, "first": first}
        output.document({"dry_run": True} | facts | counts)
        return
    stay = f"; {counted(found.leased, 'leased message')} would stay" if found.leased else ""
    output.say(f"would {words.format(messages=messages(found.messages))}{stay}; nothing changed")
    for why, count in found.stay.items():
        output.note(f"note: {messages(count)} would stay: {why}")
    if waits:
        output.note(f"note: {waits}")
    if found.first:
        output.table(message_text.COLUMNS, map(message_text.as_row, found.first))
