"""qmctl sub consume."""

from typing import Annotated

import typer

from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.message import message, selecting
from qmgr_tools.message import print as message_print
from qmgr_tools.message import text as message_text
from qmgr_tools.subscription.alter import Filter, Retained
from qmgr_tools.topic import name as topic_name

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=completion.subscriptions,
        help="A durable subscription, made where it is not there: CLIENT:NAME.",
    ),
]
Count = Annotated[
    int | None, typer.Option(metavar="N", min=1, show_default="all", help="End after so many.")
]


@command(message_text.LINES_HELP)
def consume(
    call: Call,
    filter_: Filter,
    name: Name = "",
    count: Count = None,
    where: selecting.Where = "",
    retained: Retained = True,
    lease: message.Lease = 0,
    body_only: message.BodyOnly = False,
) -> None:
    """Print what is published, as it comes, until Ctrl-C; each is acknowledged once it is printed.

    Without a NAME by a subscription that lives as long as this does, so nothing is taken from
    others. With one by the durable subscription of that name, which stays: what is published
    meanwhile waits for the next time.

    Examples:
      qmctl sub consume 'flights/#'
      qmctl sub consume flights/+/UA BILLING:late --count 10
      qmctl sub consume 'flights/#' --where "delay > 20" --body-only
    """
    topic = topic_name.bare(filter_)
    if name.startswith("~"):
        why = "it is of another connection, and ends with that"
        raise usage(f"cannot consume from {name}", why, "leave it out, or name a durable one")
    doing = f"consume what is published to {topic}"
    with (
        call.client(doing) as client,
        client.subscribe(
            topic,
            topic_name.subscription(name) if name else "",
            where=where,
            retained=retained,
            prefetch=count or 256,
            lease_ms=lease,
        ) as subscription,
    ):
        topic_name.note_wildcards(topic)
        if count is None:
            output.note(f"{subscription.name} is subscribed to {topic}; Ctrl-C ends this")
        for got, came in enumerate(subscription, start=1):
            message_print.show(call, [came], body_only=body_only, several=True)
            client.ack(came)
            if got == count:
                return
