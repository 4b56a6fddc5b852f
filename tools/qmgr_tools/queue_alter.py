"""qmctl queue alter: other limits for a queue, its puts and gets inhibited or allowed."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from qmgr_tools import option, output
from qmgr_tools.command import Call
from qmgr_tools.failure import usage
from qmgr_tools.humane import messages
from qmgr_tools.queue import COLUMNS, LIMITS, AnyName, with_state

DepthMax = Annotated[
    Any,
    typer.Option(
        metavar="N", help="The most messages.", show_default=False,
        parser=option.or_default(option.messages),
    ),
]  # fmt: skip
BytesMax = Annotated[
    Any,
    typer.Option(
        metavar="SIZE", help='The most bytes: "64 MiB".', show_default=False,
        parser=option.or_default(option.size),
    ),
]  # fmt: skip
Lease = Annotated[
    Any,
    typer.Option(
        metavar="TIME", help='How long a message may be held: "30 s".', show_default=False,
        parser=option.or_default(option.lease),
    ),
]  # fmt: skip
PutInhibit = Annotated[
    bool | None,
    typer.Option(
        "--put-inhibit/--no-put-inhibit", help="Refuse puts, or take them again.",
        show_default=False,
    ),
]  # fmt: skip
GetInhibit = Annotated[
    bool | None,
    typer.Option(
        "--get-inhibit/--no-get-inhibit", help="Hand nothing out, or go on.", show_default=False
    ),
]


def alter(
    call: Call, queue: AnyName, depth_max: DepthMax = None, bytes_max: BytesMax = None,
    lease: Lease = None, put_inhibit: PutInhibit = None, get_inhibit: GetInhibit = None,
) -> None:  # fmt: skip
    """Change options of a queue that is in use; in force at once, and over restarts.

    The word "default" gives a limit back to the queue manager. A limit below what is on the queue
    refuses puts until that is gone, and removes nothing. Inhibited puts wait on their link if they
    come over one; consumers of an inhibited queue stay and wait. What is leased may be settled.

    NAME@MANAGER can have its puts inhibited; @MANAGER holds what waits for that link, and its gets
    are the link's.

    JSON: the queue, as "qmctl queue show" gives it, without origins; and changed, an object with
    [before, after] for each option that is another now.

    Examples:
      qmctl queue alter ORDERS --depth-max 5000 --lease 2min
      qmctl queue alter ORDERS --put-inhibit      # no more puts; drain it
      qmctl queue alter ORDERS --no-put-inhibit   # go on
      qmctl queue alter ORDERS --depth-max default
      qmctl queue alter @NYC --get-inhibit        # keep what is bound for NYC
    """
    asked = {
        "depth_max": depth_max, "bytes_max": bytes_max, "lease_ms": lease,
        "put_inhibit": put_inhibit, "get_inhibit": get_inhibit,
    }  # fmt: skip
    changes = {
        key: None if value == option.DEFAULT else value
        for key, value in asked.items()
        if value is not None
    }
    if not changes:
        raise usage(
            f"nothing is to be altered on queue {queue}", "no option says what",
            "as in: --depth-max 5000, --put-inhibit; see --help",
        )  # fmt: skip
    with call.client(f"alter queue {queue}", queue) as client:
        row = with_state(client.alter_queue(queue, **changes))
    if call.is_json:
        output.document(row)
        return
    told = "; ".join(_changes(row.get("changed", {})))
    output.say(f"altered queue {queue}: {told}" if told else f"queue {queue} is so already")
    for words in _over(row):
        output.note(words)


def _changes(changed: dict[str, list[Any]]) -> Iterator[str]:
    """Yield what changed from what to what, in words."""
    for column in COLUMNS:
        if column.key in changed:
            before, after = (column.cell({column.key: value}) for value in changed[column.key])
            yield f"{column.title.lower()} {before} -> {after}"


def _over(row: dict[str, Any]) -> Iterator[str]:
    """Yield why puts are refused although nobody inhibits them."""
    for limit, held in (("depth_max", "depth"), ("bytes_max", "bytes")):
        if row.get(held, 0) > row.get(limit, row.get(held, 0)):
            most = next(column for column in LIMITS if column.key == limit).cell(row)
            yield (
                f"note: it holds {messages(row['depth'])} of {output.size('bytes').cell(row)}, "
                f"over {limit.replace('_', ' ')} {most}: puts are refused until it is drained"
            )
            return
