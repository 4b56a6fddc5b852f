"""qmctl sub consume."""

from typing import Annotated

import typer

from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.message import message, selection
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
        help="A durable subscription CLIENT:NAME, which is created if it does not exist.",
    ),
]
Count = Annotated[
    int | None, typer.Option(metavar="N", min=1, show_default="all", help="End after N messages.")
]


@command(message_text.LINES_HELP)
def consume(
    call: Call,
    filter_: Filter,
    name: Name = "",
    count: Count = None,
    where: selection.Where = "",
    retained: Retained = True,
    lease: message.Lease = 0,
    body_only: message.BodyOnly = False,
) -> None:
    """Print and acknowledge publications as they arrive, until Ctrl-C.

    Without a NAME, the command uses a temporary subscription. With a NAME, it uses that durable
    subscription. Other subscribers still receive every publication. A durable subscription stays
    after the command ends, and stores later publications.

    Examples:
      qmctl sub consume 'flights/#'
      qmctl sub consume flights/+/UA BILLING:late --count 10
      qmctl sub consume 'flights/#' --where "delay > 20" --body-only
    """
    topic = topic_name.bare(filter_)
    if name.startswith("~"):
        why = "the subscription belongs to another connection, and ends with that connection"
        remedy = "omit NAME, or name a durable subscription"
        raise usage(f"cannot consume from {name}", why, remedy)
    doing = f"consume publications to {topic}"
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
            output.note(f"subscribed {subscription.name} to {topic}; press Ctrl-C to end")
        for got, received in enumerate(subscription, start=1):
            message_print.show(call, [received], body_only=body_only, several=True)
            client.ack(received)
            if got == count:
                return
