"""Messages that are handed out are printed before they are acknowledged."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli import output
from qmgr_tools.cli.failure import usage
from qmgr_tools.message import text as message_text

if TYPE_CHECKING:
    from qmgr_client.message import Message
    from qmgr_tools.cli.command import Call


def show(call: "Call", came: Sequence["Message"], *, body_only: bool, several: bool) -> None:
    """Print what *came* so that they have left this process when this returns.

    Raises:
        Failure: USAGE, a body alone would steer the terminal to which it is to go; none is printed.
    """
    if body_only:
        _check_printable(came)
    for message in came:
        if body_only:
            end = b"\n" if several or sys.stdout.isatty() else b""
            sys.stdout.buffer.write(message.body + end)
        elif call.is_json:
            output.line(message_text.as_object(message))
        else:
            message_text.show(message)
    sys.stdout.flush()


def _check_printable(came: Sequence["Message"]) -> None:
    if not sys.stdout.isatty():
        return
    for message in came:
        if not message_text.is_printable(message.body):
            raise usage(
                f"cannot print message {message.uid} of {message.queue}",
                f"its {humane.size(len(message.body))} are not plain text and this is a terminal; "
                "it is on the queue again",
                f"send it elsewhere: qmctl get {message.queue} --body-only > FILE",
            )
