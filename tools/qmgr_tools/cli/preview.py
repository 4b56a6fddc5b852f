"""How many messages a selector is about, and the first few of them: what --dry-run tells."""

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from qmgr_tools.cli import output, progress
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.humanize import messages
from qmgr_tools.message import selector_hint
from qmgr_tools.message import text as message_text

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message

SHOWN = 5


class Preview(NamedTuple):
    """What a command would be about."""

    messages: int  # that could go now
    leased: int  # of those selected: they would stay
    first: "list[Message]"
    stay: dict[str, int]  # why others would stay, and how many


def preview(
    client: "Client",
    queue: str,
    where: str,
    limit: int = 0,
    why_stays: "Callable[[Message], str] | None" = None,
    *,
    with_delayed: bool = False,
) -> Preview:
    """Count what *where* selects on *queue*, up to *limit* (0: all); changes nothing.

    Args:
        with_delayed: whether they are looked at, too, where there is a selector.
        why_stays: tells of a message that is selected why it would not go; nothing: it would.
    """
    if not where and why_stays is None:
        row = client.admin.queue_show(queue)
        first = [message for message in client.browse(queue, SHOWN) if not message.leased]
        ready = int(row.get("ready", 0))
        return Preview(min(ready, limit or ready), int(row.get("leased", 0)), first, {})
    count = leased = 0
    first = []
    stay: dict[str, int] = {}
    with progress.spinner(f"looking at {queue}"):
        looked_at = client.browse(queue, where=where or None)
        if with_delayed:
            looked_at = chain(looked_at, client.browse(queue, where=where or None, delayed=True))
        for message in looked_at:
            if message.leased:
                leased += 1
            elif why := why_stays(message) if why_stays else "":
                stay[why] = stay.get(why, 0) + 1
            else:
                count += 1
                first += [message] if count <= SHOWN else []
            if count == limit > 0:
                break
    if not (count or leased or stay):
        selector_hint.tell(client, queue, where)
    return Preview(count, leased, first, stay)


def tell(call: Call, found: Preview, facts: dict[str, Any], words: str, waits: str = "") -> None:
    """Print what *words*, as in "move {messages} from A to B", would be about.

    Args:
        waits: why it would wait, if it would.
    """
    if call.is_json:
        first = [None if message.uid is None else str(message.uid) for message in found.first]
        counts = {"messages": found.messages, "leased": found.leased, "first": first}
        output.document({"dry_run": True} | facts | counts)
        return
    stay = f"; {found.leased} leased would stay" if found.leased else ""
    output.say(f"would {words.format(messages=messages(found.messages))}{stay}; nothing is changed")
    for why, count in found.stay.items():
        output.note(f"note: {messages(count)} would stay: {why}")
    if waits:
        output.note(f"note: {waits}")
    if found.first:
        output.table(message_text.COLUMNS, map(message_text.as_row, found.first))
