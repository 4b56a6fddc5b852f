"""Returns dead letters to their original queues, and decides which dead letters stay.

A returned message starts with counters at zero and with its remaining lifetime. Its note keeps the
failures and the number of returns. A message that was returned too often stays.
"""

from typing import Any

from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgr_protocol.record import EXPIRY_END
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.queue.notes import Note, retries
from qmgrd.core.returns.transfer import Destination

NO_DEAD_LETTER = "not a dead letter"
NOT_AUTHORIZED = "its sender may not put it on its queue (--to)"
_KEPT = ("attempts",)


def is_retry(row: dict[str, Any], note: Note) -> bool:
    """Returns whether the job with *row* returns a message with *note* to its original queue.

    A job without a target returns all messages. A job with a target returns dead letters, unless
    they have to stay dead letters.
    """
    if row["kind"] == "copy":
        return False
    return row["kind"] == "retry" or (row["retries_max"] > 0 and "code" in note)


def reason_to_stay(note: Note, retries_max: int, *, is_targeted: bool) -> str:
    """Returns the reason why a message with *note* must not be returned, or "".

    A message that its sender may not put goes only to a queue that an operator names. Otherwise,
    the sender could put it with the rights of the operator.
    """
    if "code" not in note:
        return NO_DEAD_LETTER
    if note["code"] == ErrorCode.SENDER_NOT_AUTHORIZED and not is_targeted:
        return NOT_AUTHORIZED
    count = retries(note)
    return retried_too_often(count) if count >= retries_max else ""


def retried_too_often(count: int) -> str:
    """Returns the reason why a dead letter that was returned *count* times stays."""
    return f"already retried {amount(count, 'time')} (--max-retries)"


def missing(name: str) -> str:
    """Returns the reason why a dead letter stays if its original queue *name* does not exist."""
    return f"queue {name} does not exist here" if name else "the original queue is unknown"


def on_original_queue(name: str) -> str:
    """Returns the reason why a dead letter stays if it is on its original queue *name*."""
    return f"queue {name} is the original queue"


def origin(catalogue: Catalogue, name: str) -> Destination | str:
    """Returns the original queue *name* of a dead letter, or the reason why it cannot return there.

    Raises:
        RequestError: The queue temporarily refuses messages, for example with PUT_INHIBITED.
    """
    if name not in catalogue.queues:
        return missing(name)
    try:
        return Destination(*catalogue.destination(name))
    except RequestError as error:
        if error.error_class is ErrorClass.RETRY_LATER:
            raise
        return error.text.partition("; ")[0]


def note_after(note: Note) -> Note:
    """Returns the note of a dead letter after its return."""
    return {key: note[key] for key in _KEPT if key in note} | {"retries": retries(note) + 1}


def expires_ms(note: Note, now_ms: int) -> int:
    """Returns the store clock time at which a returned dead letter expires; 0 means never."""
    left_ms = note.get("left_ms")
    if type(left_ms) is not int or left_ms < 0:
        return 0
    return min(now_ms + max(left_ms, 1), EXPIRY_END)
