"""qmctl dlq export."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, humanize, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import messages
from qmgr_tools.dlq import text as dlq_text
from qmgr_tools.dlq.dlq import SELECTORS, Queue
from qmgr_tools.message import selection, selector_hint
from qmgr_tools.queue.system import DEAD_LETTERS

if TYPE_CHECKING:
    from qmgr_client.message import Message

_KEPT = (
    "uid",
    "dead",
    "attempts",
    "priority",
    "correlation_id",
    "group",
    "number",
    "last",
    "reply_to",
    "content_type",
    "headers",
    "persistent",
    "put_time",
)


@command(
    SELECTORS
    + """
\b
Each line of FILE is an object as in "qmctl dlq ls", with uid, dead,
attempts, priority, correlation_id, group, number, last, reply_to,
content_type, headers, persistent, put_time. body_base64 is always present.

JSON: an object with queue, file and messages (the number of written messages).
"""
)
def export(
    call: Call,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            autocompletion=completion.files,
            help="The new file, with one JSON line per dead letter.",
        ),
    ],
    queue: Queue = DEAD_LETTERS,
    where: selection.Where = "",
    group: selection.GroupId = "",
) -> None:
    """Write dead letters to a file, and leave them on their queue.

    Examples:
      qmctl dlq export dead.jsonl
      qmctl dlq export orders.jsonl --where "dead_queue = 'ORDERS'"
    """
    selector = selection.within(where, group)
    with call.client(f"export the dead letters of {queue}", queue) as client:
        depth = int(client.admin.queue_show(queue).get("depth", 0))
        found = client.browse(queue, where=selector or None)
        try:
            with file.open("x", encoding="utf-8") as lines:
                written = 0
                with progress.counted(queue, depth) as advance:
                    for message in found:
                        lines.write(output.as_line(_kept(message)) + "\n")
                        advance(1)
                        written += 1
        except OSError as error:
            why = "it already exists" if isinstance(error, FileExistsError) else str(error.strerror)
            raise Failure(Exit.FAILED, f"cannot write {file}", why, "choose another file") from None
        if not written:
            selector_hint.show(client, queue, selector)
    if call.is_json:
        output.document({"queue": queue, "file": str(file), "messages": written})
    else:
        output.say(f"wrote {messages(written)} of {queue} to {file}")


def _kept(message: "Message") -> dict[str, Any]:
    """Returns the object that the file contains for a dead letter."""
    if message.cut_bytes:
        raise Failure(
            Exit.FAILED,
            f"cannot export message {message.uid} of {message.queue}",
            f"its body of {humanize.size(message.body_bytes)} is too long for a browse",
            f"write it to a file: qmctl get {message.queue} --uid {message.uid} --body-only > FILE",
        )
    found = dlq_text.as_object(message)
    body = base64.b64encode(message.body).decode()
    return {key: found[key] for key in _KEPT} | {"body_base64": body}
