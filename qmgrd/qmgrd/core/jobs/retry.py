"""Dead letters that go back: where to, and what is known of them from then on.

Each goes to the queue that it comes from, with its counts at zero and the time that it had left. Of
its note stay its failures, and how often it went back: one for which that was often enough stays
where it is.
"""

from typing import Any

from qmgr_protocol.errors import ErrorClass, RequestError
from qmgr_protocol.record import EXPIRY_END
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.limits.amount import amount
from qmgrd.core.queue.notes import Note
from qmgrd.core.returns.transfer import Place

NO_DEAD_LETTER = "no dead letters"
_KEPT = ("attempts",)


def is_retry(row: dict[str, Any], note: Note) -> bool:
    """Return whether a message with that *note* goes back, where a job has that *row*.

    Without a target all do. With one dead letters do, unless they are to stay that.
    """
    if row["kind"] == "copy":
        return False
    return row["kind"] == "retry" or (row["retries_max"] > 0 and "code" in note)


def retries(note: Note) -> int:
    """Return how often a message went back."""
    found = note.get("retries")
    return found if type(found) is int and found > 0 else 0


def reason_to_stay(note: Note, retries_max: int) -> str:
    """Return why a message with that *note* goes back nowhere; nothing if it may."""
    if "code" not in note:
        return NO_DEAD_LETTER
    count = retries(note)
    return went_back_often(count) if count >= retries_max else ""


def went_back_often(count: int) -> str:
    """Return that a dead letter went back *count* times, which is enough."""
    return f"went back {amount(count, 'time')} already (--max-retries)"


def home(note: Note, manager: str) -> str:
    """Return by what name *manager* knows the queue that a dead letter comes from, or nothing."""
    name, home_ = note.get("queue"), note.get("manager")
    if type(name) is not str or type(home_) is not str:
        return ""
    return name if home_ == manager else f"{name}@{home_}"


def missing(name: str) -> str:
    """Return that *name*, the queue that a dead letter comes from, is no more."""
    return f"queue {name} does not exist here" if name else "it does not say where it comes from"


def is_here(name: str) -> str:
    """Return that a dead letter is on *name*, the queue that it comes from."""
    return f"queue {name} is where it comes from"


def origin(catalogue: Catalogue, name: str) -> Place | str:
    """Return the queue *name* that a dead letter comes from, or why it cannot go there.

    Raises:
        RequestError: it takes nothing now, as PUT_INHIBITED.
    """
    if name not in catalogue.queues:
        return missing(name)
    try:
        return Place(*catalogue.destination(name))
    except RequestError as error:
        if error.error_class is ErrorClass.RETRY_LATER:
            raise
        return error.text.partition("; ")[0]


def note_after(note: Note) -> Note:
    """Return the note of a dead letter once it went back."""
    return {key: note[key] for key in _KEPT if key in note} | {"retries": retries(note) + 1}


def expires_ms(note: Note, now_ms: int) -> int:
    """Return the store clock until which a dead letter that goes back lives; 0 is for ever."""
    left_ms = note.get("left_ms")
    if type(left_ms) is not int or left_ms < 0:
        return 0
    return min(now_ms + max(left_ms, 1), EXPIRY_END)
