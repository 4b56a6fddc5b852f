"""qmctl put, get."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import CORRELATION_MAX_BYTES, PRIORITY_MAX
from qmgr_tools.cli import completion, option, output
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import refused, usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.message import grouping, put_lines, put_source, selecting
from qmgr_tools.message import no_messages as nothing
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
        help="NAME; NAME@MANAGER for one of another queue manager; /TOPIC.",
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
    str | None, typer.Argument(metavar="BODY", show_default=False, help="The message.")
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The message is what FILE holds.",
        show_default=False,
        autocompletion=completion.files,
    ),
]
Stdin = Annotated[
    bool, typer.Option("--stdin", help="The message is what comes on standard input.")
]
Lines = Annotated[
    bool, typer.Option("--lines", help="A message for each line of FILE, or of standard input.")
]
Priority = Annotated[
    int | None,
    typer.Option(
        metavar="0-9",
        min=0,
        max=PRIORITY_MAX,
        show_default="the queue's",
        help=f"{PRIORITY_MAX} is got first.",
    ),
]
CorrelationId = Annotated[
    str,
    typer.Option(
        metavar="TEXT", show_default=False, help=f"At most {CORRELATION_MAX_BYTES} bytes."
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=TEXT",
        show_default=False,
        help="Or KEY:=VALUE, of JSON: delay:=20 is a number to selectors, late:=true a truth. "
        "Repeatable.",
    ),
]
ContentType = Annotated[
    str, typer.Option(metavar="TYPE", show_default=False, help="As in text/plain.")
]
ReplyTo = Annotated[
    str,
    typer.Option(
        metavar="QUEUE",
        show_default=False,
        help="Where an answer is wanted.",
        autocompletion=completion.definitions,
    ),
]
GivenUid = Annotated[
    str | None,
    typer.Option(
        "--uid",
        metavar="ORIGIN.TIMESTAMP",
        show_default=False,
        help="The message's identity; refused while a message of it is on the queue.",
    ),
]
Expiry = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.expiry,
        show_default="for ever",
        help='Given up where it is not got within that, as in "1h".',
    ),
]
Delay = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.delay,
        show_default="none",
        help='Not to be got before that has passed, as in "5min".',
    ),
]
DeliverAt = Annotated[
    str,
    typer.Option(
        metavar="ISO-TIME",
        show_default=False,
        help="Not to be got before; a time here, or with its zone: 2030-01-31T18:00Z.",
    ),
]
NonPersistent = Annotated[
    bool, typer.Option("--non-persistent", help="Given up where the daemon starts anew.")
]
Report = Annotated[
    bool, typer.Option("--report", help="Have the queue of --reply-to told if it expires.")
]
Count = Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")]
All = Annotated[bool, typer.Option("--all", help="Until the queue is empty.")]
Wait = Annotated[
    int,
    typer.Option(
        metavar="TIME", parser=option.wait, help=f'For each one, as in "5s"; {option.WAITS}.'
    ),
]
Lease = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.lease,
        show_default="the queue's",
        help=f"How long it may take to print one; {option.LEASE_MAX}.",
    ),
]
Release = Annotated[
    bool, typer.Option("--release", help="In the end give them back, as failed, unacknowledged.")
]
BodyOnly = Annotated[
    bool,
    typer.Option("--body-only", help="Bodies alone: one as it is, of several each with a newline."),
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
    """Put a message on a queue, or one for each line of a file. What is answered is on disk.

    \b
    JSON: an object with
      queue, messages, refused      how many were put, and how many refused
      bytes, seconds                of their bodies; how long it took
      uid                           of a single message, else null

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
        "correlation_id": selecting.correlation(correlation_id),
        "content_type": content_type,
        "headers": option.headers(header or []),
        "reply_to": reply_to,
        "expiry_ms": expiry,
        "persistent": not non_persistent,
        "report": report,
        "group": grouping.of_put(group, number, last=last),
    }
    if report and not reply_to:
        raise usage("--report tells nobody", "no queue is named", "name one with --reply-to")
    properties |= _time_of(delay, deliver_at)
    if lines:
        _put_lines(call, queue, file, properties)
        return
    properties["uid"] = None if uid is None else option.uid(uid)
    _put_one(call, queue, put_source.read(body, file), properties)


def _time_of(delay: int, deliver_at: str) -> dict[str, Any]:
    """Return when a message is to be got."""
    if delay and deliver_at:
        raise usage("cannot wait twice", "--delay and --deliver-at both say when", "give one")
    return {"deliver_at": option.moment(deliver_at)} if deliver_at else {"delay_ms": delay}


def _put_one(call: Call, queue: str, data: bytes, properties: dict[str, Any]) -> None:
    started_s = time.monotonic()
    with call.client(f"put on {queue}") as client:
        result = client.put(queue, data, **properties)
    stored = None if result.uid is None else str(result.uid)
    if call.is_json:
        _report(queue, 1, 0, len(data), time.monotonic() - started_s, stored)
    else:
        output.say(f"put on {queue}: {stored or 'stored by an earlier try'}{matched(result)}")


def matched(result: "PutResult") -> str:
    """Return for how many subscriptions a publication is, where that is known."""
    count = result.subscriptions
    return "" if count is None else f", for {humane.counted(count, 'subscription')}"


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
    where: selecting.Where = "",
    correlation_id: selecting.CorrelationId = "",
    group_id: selecting.GroupId = "",
    uid: selecting.GivenUid = None,
    order: grouping.Ordered = grouping.Order.PHYSICAL,
    all_available: grouping.AllAvailable = False,
    number: grouping.Number = None,
) -> None:
    """Get messages: they are leased, printed, and acknowledged once they are printed.

    A message that is acknowledged is gone from the queue. Where none came, the exit code is 7.

    Examples:
      qmctl get ORDERS
      qmctl get ORDERS --wait 30s --body-only
      qmctl get ORDERS --all -o json
      qmctl get ORDERS --where "customer = 'ann'"
      qmctl get FLIGHTS --order logical --all-available --count 10
    """
    chosen = selecting.chosen(where, correlation_id, group_id, uid)
    grouping.checked(chosen, number)
    left = None if all_ else count
    got = 0
    with (
        call.client(f"get from {queue}", queue) as client,
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
            came = get_more(wanted)
            if not came:
                break
            held += came
            try:
                message_print.show(call, came, body_only=body_only, several=all_ or count > 1)
            except BaseException:
                with suppress(RequestError):
                    _give_back(client, held)
                raise
            got += len(came)
            if not release:
                lost = [error for error in client.ack_many(came) if error is not None]
                if lost:
                    raise refused(f"acknowledge {messages(len(lost))} from {queue}", lost[0])
                held.clear()
        _give_back(client, held)
        if not got and not all_:
            raise nothing.failure(client, queue, wait, chosen)


def _give_back(client: "Client", held: Sequence["Message"]) -> None:
    for message in reversed(held):  # Behind one of a group that comes back, all others would.
        client.release(message)
