"""Dead letters that go back: where to, and what is known of them from then on.

Each goes to the queue that it comes from, with its counts at zero and the time that it had left. Of
its note stay its failures, and how often it went back: one for which that was often enough stays
where it is.
"""

from typing import Any

from qmgr_protocol.errors import ErrorClass, RequestError
from qmgr_protocol.record import EXPIRY_END
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.notes import Note
from qmgrd.core.transfer import Place

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


def origin(catalogue: Catalogue, manager: str, note: Note) -> Place | None:
    """Return where a dead letter comes from; None where that is no more.

    Raises:
        RequestError: it takes nothing now, as PUT_INHIBITED.
    """
    name, home = note.get("queue"), note.get("manager")
    if type(name) is not str or type(home) is not str:
        return None
    name = name if home == manager else f"{name}@{home}"
    if name not in catalogue.queues:
        return None
    try:
        return Place(*catalogue.destination(name))
    except RequestError as error:
        if error.error_class is ErrorClass.RETRY_LATER:
            raise
        return None


def note_after(note: Note) -> Note:
    """Return the note of a dead letter once it went back."""
    return {key: note[key] for key in _KEPT if key in note} | {"retries": retries(note) + 1}


def expires_ms(note: Note, now_ms: int) -> int:
    """Return the store clock until which a dead letter that goes back lives; 0 is for ever."""
    left_ms = note.get("left_ms")
    if type(left_ms) is not int or left_ms < 0:
        return 0
    return min(now_ms + max(left_ms, 1), EXPIRY_END)
