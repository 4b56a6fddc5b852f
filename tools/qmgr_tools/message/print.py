"""Prints received messages before they are acknowledged."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qmgr_tools.cli import humanize, output
from qmgr_tools.cli.failure import usage
from qmgr_tools.message import text as message_text

if TYPE_CHECKING:
    from qmgr_client.message import Message
    from qmgr_tools.cli.command import Call


def show(call: "Call", received: Sequence["Message"], *, body_only: bool, several: bool) -> None:
    """Prints the *received* messages, and flushes the output.

    Raises:
        Failure: USAGE if a body would send control characters to the terminal. No message is
            printed in this case.
    """
    if body_only:
        _check_printable(received)
    for message in received:
        if body_only:
            end = b"\n" if several or sys.stdout.isatty() else b""
            sys.stdout.buffer.write(message.body + end)
        elif call.is_json:
            output.line(message_text.as_object(message))
        else:
            message_text.show(message)
    sys.stdout.flush()


def _check_printable(received: Sequence["Message"]) -> None:
    if not sys.stdout.isatty():
        return
    for message in received:
        if not message_text.is_printable(message.body):
            raise usage(
                f"cannot print message {message.uid} of {message.queue}",
                f"its body of {humanize.size(message.body_bytes)} is not plain text, and the "
                "output is a terminal; the message was returned to the queue",
                f"write it to a file: qmctl get {message.queue} --body-only > FILE",
            )
