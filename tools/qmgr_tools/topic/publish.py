"""qmctl pub."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from qmgr_protocol.topic import MARK
from qmgr_tools.cli import completion, humanize, option, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import refused, usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.message import grouping, message, put_lines, put_source, selection
from qmgr_tools.topic import name as topic_name

Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        show_default=False,
        autocompletion=completion.topics,
        help="The topic, with levels separated by /: flights/JFK/UA.",
    ),
]
Retain = Annotated[
    bool,
    typer.Option(
        "--retain",
        help="Retain the message for later subscribers. An empty body deletes the retained one.",
    ),
]


@command()
def pub(
    call: Call,
    topic: Topic,
    body: message.Body = None,
    file: message.File = None,
    stdin: message.Stdin = False,
    lines: message.Lines = False,
    retain: Retain = False,
    priority: message.Priority = None,
    correlation_id: message.CorrelationId = "",
    header: message.Header = None,
    content_type: message.ContentType = "",
    reply_to: message.ReplyTo = "",
    uid: message.GivenUid = None,
    expiry: message.Expiry = 0,
    non_persistent: message.NonPersistent = False,
    report: message.Report = False,
    group: grouping.PutGroup = b"",
    number: grouping.PutNumber = None,
    last: grouping.Last = False,
) -> None:
    """Publish a message, or one for each line of a file, and wait until it is on disk.

    All current subscribers of the topic receive the message (see: qmctl topic show). Without
    subscribers the message is not stored. A topic needs no definition.

    \b
    JSON: an object with
      topic, messages, refused      topic; number of stored, of refused messages
      bytes, seconds                size of the bodies; duration
      subscriptions                 number of subscriptions that each message
                                    matched; null if unknown or not the same
      uid                           UID of a single message, else null

    Examples:
      qmctl pub flights/JFK/UA '20 minutes late' --header delay:=20
      qmctl pub flights/JFK/UA 'on time' --retain --expiry 1h
      qmctl pub flights/JFK/UA --lines --file delays.txt
    """
    topic = topic_name.bare(topic)
    put_source.check(
        f"publish to {topic}",
        body is not None,
        file is not None,
        stdin=stdin,
        lines=lines,
        uid=uid is not None,
    )
    if report and not reply_to:
        raise usage(
            "--report needs a queue for reports", "no queue is given", "add --reply-to QUEUE"
        )
    properties: dict[str, Any] = {
        "priority": priority,
        "correlation_id": selection.correlation(correlation_id),
        "content_type": content_type,
        "headers": option.headers(header or []),
        "reply_to": reply_to,
        "expiry_ms": expiry,
        "persistent": not non_persistent,
        "report": report,
        "retained": retain,
        "group": grouping.of_put(group, number, last=last),
    }
    if lines:
        _publish_lines(call, topic, file, properties)
        return
    properties["uid"] = None if uid is None else option.uid(uid)
    _publish_one(call, topic, put_source.read(body, file), properties)


def _publish_one(call: Call, topic: str, data: bytes, properties: dict[str, Any]) -> None:
    started_s = time.monotonic()
    with call.client(f"publish to {topic}") as client:
        result = client.publish(topic, data, **properties)
    stored = None if result.uid is None else str(result.uid)
    if not call.is_json:
        known = stored or "already stored by an earlier try"
        output.say(f"published to {topic}: {known}{message.matched(result)}")
        return
    seconds = round(time.monotonic() - started_s, 3)
    output.document(
        {
            "topic": topic,
            "messages": 1,
            "refused": 0,
            "bytes": len(data),
            "seconds": seconds,
            "subscriptions": result.subscriptions,
            "uid": stored,
        }
    )


def _publish_lines(call: Call, topic: str, file: Path | None, properties: dict[str, Any]) -> None:
    done = put_lines.put(call, f"publish to {topic}", MARK + topic, file, properties)
    stored = done.messages - len(done.refusals)
    fits = next(iter(done.subscriptions)) if len(done.subscriptions) == 1 else None
    if call.is_json:
        output.document(
            {
                "topic": topic,
                "messages": stored,
                "refused": len(done.refusals),
                "bytes": done.size_bytes,
                "seconds": round(done.seconds, 3),
                "subscriptions": fits,
                "uid": None,
            }
        )
    else:
        each = "" if fits is None else f", each for {humanize.counted(fits, 'subscription')}"
        output.say(f"published to {topic}: {messages(stored)}{each}{done.rate}")
    if done.refusals:
        what = f"publish {len(done.refusals)} of {messages(done.messages)} to {topic}"
        raise refused(what, done.refusals[0])
