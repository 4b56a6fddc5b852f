"""Notes: facts about a message that failed or is a dead letter, in a row next to its entry.

    code      why it is a dead letter (ErrorCode); absent if it only failed
    reason    a word of the consumer that rejected it, and its text
    text
    queue     where it comes from, and at which queue manager
    manager
    us        when it became a dead letter, wall clock
    failed    its counts there
    delivered
    retries   how often it was moved back to its queue
    left_ms   the time it had left
    attempts  [us, code, reason, text, client]: the first and the last few failures
    hops      on a transmission queue: the queue managers that it came through so far
    came      the same, for a message that arrived: it may start a new way from here

Every key may be absent. Only messages that failed, or came through another queue manager, have a
note. Notes cost other messages nothing.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import FrameMalformed, name_of
from qmgr_protocol.messages import REASON_TEXT_MAX
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction

ATTEMPTS_MAX = 10
HOPS_MAX = 16
NAME_MAX = 64
NOTE_MAX_BYTES = 32 * 1024
Note = dict[str, Any]
_OWN = (
    "code",
    "reason",
    "text",
    "queue",
    "manager",
    "us",
    "failed",
    "delivered",
    "retries",
    "left_ms",
    "turn",
)


class Cause(NamedTuple):
    """Why a message is a dead letter."""

    code: int
    reason: str = ""  # the consumer's
    text: str = ""
    client: str = ""  # that consumer's name
    delivered: bool = False  # whether this raises its counts again
    failed: bool = False
    failure: int = 0  # why it failed the last time, for its history
    event_text: str = ""  # for operators, in the event, if the code alone would mislead

    @property
    def why(self) -> str:
        """The reason in events for operators."""
        return self.event_text or name_of(self.code)


def read(tx: Transaction, queue_id: int, arrival: int) -> Note:
    """Returns the note of a message; an empty one if it has none, or a damaged one."""
    row = raw(tx, queue_id, arrival)
    return decode(row)


def raw(tx: Transaction, queue_id: int, arrival: int) -> bytes:
    """Returns the encoded note of a message; nothing if it has none, or a damaged one."""
    try:
        return rows.find(tx, keys.note(queue_id, arrival)) or b""
    except rows.RowDamaged:
        return b""


def write(tx: Transaction, queue_id: int, arrival: int, note: bytes) -> None:
    """Stores an encoded *note*."""
    rows.put(tx, keys.note(queue_id, arrival), note)


def encode(note: Note) -> bytes:
    """Returns *note* as it is stored and sent: at most NOTE_MAX_BYTES.

    A longer note keeps its first attempt, and as many of the last ones as fit. If that is not
    enough, it loses the keys that are unknown here.
    """
    data: bytes = pack(note)
    for shorter in _shortened(note) if len(data) > NOTE_MAX_BYTES else ():
        data = pack(shorter)
        if len(data) <= NOTE_MAX_BYTES:
            break
    return data


def _shortened(note: Note) -> Iterator[Note]:
    """Yields *note*, shorter each time; the last one always fits."""
    attempts = note.get("attempts")
    known = attempts if type(attempts) is list else []
    for left_out in range(2, len(known)):
        yield note | {"attempts": [known[0], *known[left_out:]]}
    own = {key: note[key] for key in _OWN if key in note and _is_short(note[key])}
    if is_way(note.get("hops")):
        own["hops"] = note["hops"]  # Without it a message may travel in a circle.
    yield own | {"attempts": known[-1:]}
    yield own


def is_way(hops: object) -> bool:
    """Returns whether *hops* is a list of names of queue managers, and not too long."""
    if type(hops) is not list or len(hops) > HOPS_MAX:
        return False
    return all(type(hop) is str and 0 < len(hop) <= NAME_MAX for hop in hops)


def _is_short(value: Any) -> bool:
    return type(value) is int or (type(value) is str and len(value) <= REASON_TEXT_MAX)


def checked(data: object) -> bytes:
    """Returns the encoded note that a peer sent if it is valid, else nothing."""
    if type(data) is not bytes or len(data) > NOTE_MAX_BYTES:
        return b""
    return data if decode(data) else b""


def with_attempt(
    note: Note, us: int, code: int, reason: str = "", text: str = "", client: str = ""
) -> Note:
    """Returns *note* with another failure; it keeps the first and the last few."""
    attempts = note.get("attempts")
    known = attempts if type(attempts) is list else []
    known = [*known, [us, code, reason, text, client]]
    if len(known) > ATTEMPTS_MAX:
        known = [known[0], *known[-(ATTEMPTS_MAX - 1) :]]
    return note | {"attempts": known}


def decode(data: bytes) -> Note:
    """Returns the note that is encoded as *data*; an empty one if *data* is not a note."""
    if not data:
        return {}
    try:
        found = unpack(data)
    except FrameMalformed:
        return {}
    return found if type(found) is dict else {}


def facts_of(note: Note) -> dict[str, Any]:
    """Returns the facts of a dead letter for selectors, by name."""
    code = note.get("code")
    return {
        "dead_code": name_of(code) if type(code) is int else None,
        "dead_reason": note.get("reason"),
        "dead_text": note.get("text"),
        "dead_queue": note.get("queue"),
        "dead_manager": note.get("manager"),
        "dead_us": note.get("us"),
        "dead_failed": note.get("failed"),
        "dead_delivered": note.get("delivered"),
        "dead_retries": note.get("retries", 0),
    }
