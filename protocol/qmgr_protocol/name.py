"""Names of queues, queue managers and links.

A plain name is 1 to 64 of ``A-Z a-z 0-9 . _ -``. A queue on another queue manager has the name
``QUEUE@MANAGER``. ``@MANAGER`` alone is the transmission queue of the link to that queue manager.
"""

import re

from qmgr_protocol.errors import ErrorCode, RequestError

NAME_MAX = 64
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_name(text: str) -> bool:
    """Returns whether *text* is a plain name."""
    return _NAME.fullmatch(text) is not None


def split(text: str) -> tuple[str, str]:
    """Returns the queue and the queue manager in *text*. Either of the two may be empty.

    Raises:
        RequestError: NAME_INVALID, with the invalid text cut to a printable length.
    """
    queue, at, manager = text.partition("@")
    if (is_name(queue) or (at and not queue)) and (is_name(manager) or not at):
        return queue, manager
    raise RequestError(
        ErrorCode.NAME_INVALID,
        f"{text[:80]!r} is not a valid name: use 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -, "
        f"or QUEUE@MANAGER for a remote queue{_of_topic(text)}",
    )


def _of_topic(text: str) -> str:
    """Returns a hint if *text* looks like a topic, otherwise an empty string."""
    if text.startswith("/"):
        return "; a topic accepts only puts: get from a subscription, see qmctl sub ls"
    return "; a topic starts with /" if "/" in text else ""


def check(text: str) -> str:
    """Returns *text* if it is a plain name.

    Raises:
        RequestError: NAME_INVALID if *text* is not a plain name.
    """
    if not is_name(text):
        raise RequestError(
            ErrorCode.NAME_INVALID,
            f"{text[:80]!r} is not a valid name: use 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -",
        )
    return text
