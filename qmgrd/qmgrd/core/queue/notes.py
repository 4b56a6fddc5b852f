"""Notes: what is known of a message that failed, or that is a dead letter. A row beside its entry.

    code      why it is a dead letter (ErrorCode); absent while it only failed
    reason    a word of the consumer that rejected it, and its text
    text
    queue     where it comes from, and at which queue manager
    manager
    us        when it became a dead letter, wall clock
    failed    its counts there
    delivered
    retries   how often it went back already
    left_ms   the time it had left
    attempts  [us, code, reason, text, client]: the first and the last few failures
    hops      on a transmission queue: the queue managers that it came through so far
    came      the same, of one that has arrived: it may go on from here anew

Every key may be absent. Only what failed has a note, or went on from an intermediate queue manager:
nothing of it is on the path of any other message.
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
    delivered: bool = False  # whether this raises its counts once more
    failed: bool = False
    failure: int = 0  # why it failed this last time, for its history
    told: str = ""  # to operators, in the event, where the code alone would mislead

    @property
    def why(self) -> str:
        """What operators are told."""
        return self.told or name_of(self.code)


def read(tx: Transaction, queue_id: int, arrival: int) -> Note:
    """Return the note of a message; an empty one where it has none, or one that rotted."""
    row = raw(tx, queue_id, arrival)
    return decode(row)


def raw(tx: Transaction, queue_id: int, arrival: int) -> bytes:
    """Return the encoded note of a message; nothing where it has none, or one that rotted."""
    try:
        return rows.find(tx, keys.note(queue_id, arrival)) or b""
    except rows.RowDamaged:
        return b""


def write(tx: Transaction, queue_id: int, arrival: int, note: bytes) -> None:
    """Store an encoded *note*."""
    rows.put(tx, keys.note(queue_id, arrival), note)


def encode(note: Note) -> bytes:
    """Return *note* as it is stored and sent: at most NOTE_MAX_BYTES.

    Of one that is longer only the first attempt is kept, and as many of the last as there is room
    for; if that is not enough, what is not known of here goes.
    """
    data: bytes = pack(note)
    for shorter in _shortened(note) if len(data) > NOTE_MAX_BYTES else ():
        data = pack(shorter)
        if len(data) <= NOTE_MAX_BYTES:
            break
    return data


def _shortened(note: Note) -> Iterator[Note]:
    """Yield *note*, shorter each time; the last fits whatever a peer made it of."""
    attempts = note.get("attempts")
    known = attempts if type(attempts) is list else []
    for left_out in range(2, len(known)):
        yield note | {"attempts": [known[0], *known[left_out:]]}
    own = {key: note[key] for key in _OWN if key in note and _is_short(note[key])}
    if is_way(note.get("hops")):
        own["hops"] = note["hops"]  # Without it a message might go in a circle.
    yield own | {"attempts": known[-1:]}
    yield own


def is_way(hops: object) -> bool:
    """Return whether *hops* are names of queue managers, not too many."""
    if type(hops) is not list or len(hops) > HOPS_MAX:
        return False
    return all(type(hop) is str and 0 < len(hop) <= NAME_MAX for hop in hops)


def _is_short(value: Any) -> bool:
    return type(value) is int or (type(value) is str and len(value) <= REASON_TEXT_MAX)


def checked(data: object) -> bytes:
    """Return the encoded note that a peer sent if it is one, else nothing."""
    if type(data) is not bytes or len(data) > NOTE_MAX_BYTES:
        return b""
    return data if decode(data) else b""


def with_attempt(
    note: Note, us: int, code: int, reason: str = "", text: str = "", client: str = ""
) -> Note:
    """Return *note* with a failure more; of many the first is kept, and the last few."""
    attempts = note.get("attempts")
    known = attempts if type(attempts) is list else []
    known = [*known, [us, code, reason, text, client]]
    if len(known) > ATTEMPTS_MAX:
        known = [known[0], *known[-(ATTEMPTS_MAX - 1) :]]
    return note | {"attempts": known}


def decode(data: bytes) -> Note:
    """Return the note that is encoded as *data*; an empty one where there is none in it."""
    if not data:
        return {}
    try:
        found = unpack(data)
    except FrameMalformed:
        return {}
    return found if type(found) is dict else {}


def facts_of(note: Note) -> dict[str, Any]:
    """Return what a selector may ask of a dead letter, by name."""
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
