"""qmctl put, get."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import CORRELATION_MAX_BYTES, PRIORITY_MAX
from qmgr_tools.cli import completion, humanize, option, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import refused, usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.message import empty_get, grouping, put_lines, put_source, selection
from qmgr_tools.message import print as message_print
from qmgr_tools.message import text as message_text

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message
    from qmgr_client.outgoing import PutResult

AT_A_TIME = 100

Target = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        show_default=False,
        autocompletion=completion.definitions,
        help="NAME, NAME@MANAGER for a queue of another queue manager, or /TOPIC.",
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        show_default=False,
        autocompletion=completion.local_queues,
        help="A queue of this queue manager, or a subscription.",
    ),
]
Body = Annotated[
    str | None, typer.Argument(metavar="BODY", show_default=False, help="The body of the message.")
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Read the message from FILE.",
        show_default=False,
        autocompletion=completion.files,
    ),
]
Stdin = Annotated[bool, typer.Option("--stdin", help="Read the message from standard input.")]
Lines = Annotated[
    bool, typer.Option("--lines", help="Put a message for each line of FILE or standard input.")
]
Priority = Annotated[
    int | None,
    typer.Option(
        metavar="0-9",
        min=0,
        max=PRIORITY_MAX,
        show_default="the queue's",
        help=f"The priority; {PRIORITY_MAX} is the highest.",
    ),
]
CorrelationId = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        show_default=False,
        help=f"The correlation id, at most {CORRELATION_MAX_BYTES} bytes.",
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=TEXT",
        show_default=False,
        help="A header. KEY:=VALUE sets a JSON value: delay:=20, late:=true. Repeatable.",
    ),
]
ContentType = Annotated[
    str, typer.Option(metavar="TYPE", show_default=False, help="A media type, such as text/plain.")
]
ReplyTo = Annotated[
    str,
    typer.Option(
        metavar="QUEUE",
        show_default=False,
        help="The queue for replies.",
        autocompletion=completion.definitions,
    ),
]
GivenUid = Annotated[
    str | None,
    typer.Option(
        "--uid",
        metavar="ORIGIN.TIMESTAMP",
        show_default=False,
        help="The UID of the message. A put with an existing UID is refused.",
    ),
]
Expiry = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.expiry,
        show_default="none",
        help='Let the message expire if it is not consumed within TIME, as in "1h".',
    ),
]
Delay = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.delay,
        show_default="none",
        help='Deliver the message after TIME, as in "5min".',
    ),
]
DeliverAt = Annotated[
    str,
    typer.Option(
        metavar="ISO-TIME",
        show_default=False,
        help="Deliver the message at this local time, or at a time with a zone: 2030-01-31T18:00Z.",
    ),
]
NonPersistent = Annotated[
    bool, typer.Option("--non-persistent", help="The message is lost if the daemon restarts.")
]
Report = Annotated[
    bool, typer.Option("--report", help="Send a report to --reply-to if the message expires.")
]
Count = Annotated[int, typer.Option(metavar="N", min=1, help="Get at most N messages.")]
All = Annotated[bool, typer.Option("--all", help="Get messages until the queue is empty.")]
Wait = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.wait,
        help=f'Wait up to TIME for each message, as in "5s"; {option.WAITS}.',
    ),
]
Lease = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.lease,
        show_default="the queue's",
        help=f"The duration of the lease, for printing the messages; {option.LEASE_MAX}.",
    ),
]
Release = Annotated[
    bool,
    typer.Option("--release", help="Return the messages as failed instead of acknowledging them."),
]
BodyOnly = Annotated[
    bool,
    typer.Option(
        "--body-only",
        help="Print only the bodies. With several messages, a newline follows each body.",
    ),
]


@command()
def put(
    call: Call,
    queue: Target,
    body: Body = None,
    file: File = None,
    stdin: Stdin = False,
    lines: Lines = False,
    priority: Priority = None,
    correlation_id: CorrelationId = "",
    header: Header = None,
    content_type: ContentType = "",
    reply_to: ReplyTo = "",
    uid: GivenUid = None,
    expiry: Expiry = 0,
    delay: Delay = 0,
    deliver_at: DeliverAt = "",
    non_persistent: NonPersistent = False,
    report: Report = False,
    group: grouping.PutGroup = b"",
    number: grouping.PutNumber = None,
    last: grouping.Last = False,
) -> None:
    """Put a message, or one for each line of a file, and wait until it is on disk.

    \b
    JSON: an object with
      queue, messages, refused      queue; number of stored, of refused messages
      bytes, seconds                size of the bodies; duration
      uid                           UID of a single message, else null

    Examples:
      qmctl put ORDERS 'one ton of apples' --header customer=ann --header tons:=1
      qmctl put ORDERS --file order.xml --priority 9 --expiry 1h
      qmctl put ORDERS 'good morning' --deliver-at 2030-01-31T06:00
      qmctl put ORDERS --lines --file orders.txt
      qmctl put FLIGHTS 'off blocks' --group N12345 --number 1
    """
    put_source.check(
        f"put on {queue}",
        body is not None,
        file is not None,
        stdin=stdin,
        lines=lines,
        uid=uid is not None,
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
        "group": grouping.of_put(group, number, last=last),
    }
    if report and not reply_to:
        raise usage(
            "--report needs a queue for reports", "no queue is given", "add --reply-to QUEUE"
        )
    properties |= _time_of(delay, deliver_at)
    if lines:
        _put_lines(call, queue, file, properties)
        return
    properties["uid"] = None if uid is None else option.uid(uid)
    _put_one(call, queue, put_source.read(body, file), properties)


def _time_of(delay: int, deliver_at: str) -> dict[str, Any]:
    """Returns the delivery time of a message."""
    if delay and deliver_at:
        why = "--delay and --deliver-at exclude each other"
        raise usage("conflicting options", why, "use one of them")
    return {"deliver_at": option.moment(deliver_at)} if deliver_at else {"delay_ms": delay}


def _put_one(call: Call, queue: str, data: bytes, properties: dict[str, Any]) -> None:
    started_s = time.monotonic()
    with (
        call.client(f"put on {queue}") as client,
        progress.transfer(queue, lambda: client.long_bytes),
    ):
        result = client.put(queue, data, **properties)
    stored = None if result.uid is None else str(result.uid)
    if call.is_json:
        _report(queue, 1, 0, len(data), time.monotonic() - started_s, stored)
    else:
        output.say(
            f"put on {queue}: {stored or 'already stored by an earlier try'}{matched(result)}"
        )


def matched(result: "PutResult") -> str:
    """Returns the number of subscriptions that a publication matched in words, if known."""
    count = result.subscriptions
    return "" if count is None else f", for {humanize.counted(count, 'subscription')}"


def _report(
    queue: str, messages: int, refusals: int, size_bytes: int, seconds: float, uid: str | None
) -> None:
    output.document(
        {
            "queue": queue,
            "messages": messages,
            "refused": refusals,
            "bytes": size_bytes,
            "seconds": round(seconds, 3),
            "uid": uid,
        }
    )


def _put_lines(call: Call, queue: str, file: Path | None, properties: dict[str, Any]) -> None:
    done = put_lines.put(call, f"put on {queue}", queue, file, properties)
    stored = done.messages - len(done.refusals)
    if call.is_json:
        _report(queue, stored, len(done.refusals), done.size_bytes, done.seconds, None)
    else:
        output.say(f"put on {queue}: {messages(stored)}{done.rate}")
    if done.refusals:
        why = f"put {len(done.refusals)} of {messages(done.messages)} on {queue}"
        raise refused(why, done.refusals[0])


@command(message_text.LINES_HELP)
def get(
    call: Call,
    queue: Source,
    count: Count = 1,
    all_: All = False,
    wait: Wait = 0,
    lease: Lease = 0,
    release: Release = False,
    body_only: BodyOnly = False,
    where: selection.Where = "",
    correlation_id: selection.CorrelationId = "",
    group_id: selection.GroupId = "",
    uid: selection.GivenUid = None,
    order: grouping.Ordered = grouping.GroupOrder.PHYSICAL,
    all_available: grouping.AllAvailable = False,
    number: grouping.Number = None,
) -> None:
    """Get messages: lease, print and acknowledge them.

    The command prints each message and then acknowledges it, which deletes it from the queue. If no
    message arrives, the exit code is 7.

    Examples:
      qmctl get ORDERS
      qmctl get ORDERS --wait 30s --body-only
      qmctl get ORDERS --all -o json
      qmctl get ORDERS --where "customer = 'ann'"
      qmctl get FLIGHTS --order logical --all-available --count 10
    """
    chosen = selection.chosen(where, correlation_id, group_id, uid)
    grouping.checked(chosen, number)
    left = None if all_ else count
    got = 0
    with (
        call.client(f"get from {queue}", queue) as client,
        progress.transfer(queue, lambda: client.long_bytes),
        grouping.getter(
            client,
            queue,
            chosen,
            order,
            number,
            all_available=all_available,
            wait_ms=wait,
            lease_ms=lease,
        ) as get_more,
    ):
        held: list[Message] = []
        while left is None or got < left:
            wanted = AT_A_TIME if left is None else min(left - got, AT_A_TIME)
            received = get_more(wanted)
            if not received:
                break
            held += received
            try:
                message_print.show(call, received, body_only=body_only, several=all_ or count > 1)
            except BaseException:
                with suppress(RequestError):
                    _release(client, held)
                raise
            got += len(received)
            if not release:
                lost = [error for error in client.ack_many(received) if error is not None]
                if lost:
                    raise refused(f"acknowledge {messages(len(lost))} from {queue}", lost[0])
                held.clear()
        _release(client, held)
        if not got and not all_:
            raise empty_get.failure(client, queue, wait, chosen)


def _release(client: "Client", held: Sequence["Message"]) -> None:
    # The release of a message in a group also releases all later messages.
    for message in reversed(held):
        client.release(message)
