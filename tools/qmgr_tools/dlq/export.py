"""qmctl dlq export."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import messages
from qmgr_tools.dlq import text as dlq_text
from qmgr_tools.dlq.dlq import SELECTORS, Queue
from qmgr_tools.message import selecting, selector_hint
from qmgrd.core.catalogue.system import DEAD_LETTERS

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
A line of FILE is an object as "qmctl dlq ls" gives it, with uid, dead,
attempts, priority, correlation_id, group, number, last, reply_to,
content_type, headers, persistent, put_time; and with body_base64, whatever
the body is.

JSON: an object with queue, file and messages, how many were written.
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
            help="A new file: JSON, a line for each.",
        ),
    ],
    queue: Queue = DEAD_LETTERS,
    where: selecting.Where = "",
    group: selecting.GroupId = "",
) -> None:
    """Write dead letters to a file, and leave them where they are.

    Examples:
      qmctl dlq export dead.jsonl
      qmctl dlq export orders.jsonl --where "dead_queue = 'ORDERS'"
    """
    selector = selecting.within(where, group)
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
            why = (
                "it is there already" if isinstance(error, FileExistsError) else str(error.strerror)
            )
            raise Failure(Exit.FAILED, f"cannot write {file}", why, "name another file") from None
        if not written:
            selector_hint.tell(client, queue, selector)
    if call.is_json:
        output.document({"queue": queue, "file": str(file), "messages": written})
    else:
        output.say(f"wrote {messages(written)} of {queue} to {file}")


def _kept(message: "Message") -> dict[str, Any]:
    """Return what a line says of a dead letter."""
    found = dlq_text.as_object(message)
    body = base64.b64encode(message.body).decode()
    return {key: found[key] for key in _KEPT} | {"body_base64": body}
