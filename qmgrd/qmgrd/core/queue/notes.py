"""Notes: details of a message that failed or is a dead letter, in a row next to its entry.

    code      reason for the dead letter (ErrorCode); absent if the message only failed
    reason    short reason of the consumer that rejected the message
    text      detailed reason of that consumer
    queue     queue from which the message came
    manager   queue manager of that queue
    us        time at which the message became a dead letter, wall clock
    failed    number of failures on that queue
    delivered number of deliveries on that queue
    retries   number of times the message was moved back to its queue
    left_ms   time until the expiry when the message became a dead letter
    attempts  [us, code, reason, text, client]: the first and the last few failures
    hops      queue managers that the message has passed, on a transmission queue
    came      queue managers that an arrived message has passed; its route may restart here

Every key may be absent. Only messages that failed, or came through another queue manager, have a
note. Notes add no cost to other messages.
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
RETRIES_MAX = 2**31  # a note from a peer may claim more, which could not be increased
NAME_MAX = 64
NOTE_MAX_BYTES = 32 * 1024
PEER_BUILT_MAX_BYTES = 4 * 1024  # the limit for the lists and maps of a note from a peer
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
    """The reason why a message becomes a dead letter."""

    code: int
    reason: str = ""  # the reason of the consumer that rejected the message
    text: str = ""  # the text of that consumer
    client: str = ""  # the name of that consumer
    delivered: bool = False  # whether the number of deliveries rises by 1
    failed: bool = False  # whether the number of failures rises by 1
    failure: int = 0  # the error code of the last failure, for the history of the message
    event_text: str = ""  # a message for operators if the code alone would be misleading

    @property
    def why(self) -> str:
        """The reason that events show to operators."""
        return self.event_text or name_of(self.code)


def read(tx: Transaction, queue_id: int, arrival: int) -> Note:
    """Returns the note of a message, or an empty note if it is missing or damaged."""
    row = raw(tx, queue_id, arrival)
    return decode(row)


def raw(tx: Transaction, queue_id: int, arrival: int) -> bytes:
    """Returns the encoded note of a message, or b"" if it is missing or damaged."""
    try:
        return rows.find(tx, keys.note(queue_id, arrival)) or b""
    except rows.RowDamaged:
        return b""


def write(tx: Transaction, queue_id: int, arrival: int, note: bytes) -> None:
    """Stores an encoded *note*."""
    rows.put(tx, keys.note(queue_id, arrival), note)


def encode(note: Note) -> bytes:
    """Returns the encoded *note*, which has at most NOTE_MAX_BYTES.

    A longer note keeps the first attempt and as many of the last attempts as fit. If the note is
    still too long, its unknown keys are removed.
    """
    data: bytes = pack(note)
    for shorter in _shortened(note) if len(data) > NOTE_MAX_BYTES else ():
        data = pack(shorter)
        if len(data) <= NOTE_MAX_BYTES:
            break
    return data


def _shortened(note: Note) -> Iterator[Note]:
    """Yields shorter and shorter versions of *note*. The last version always fits."""
    attempts = note.get("attempts")
    known = attempts if type(attempts) is list else []
    for left_out in range(2, len(known)):
        yield note | {"attempts": [known[0], *known[left_out:]]}
    own = {key: note[key] for key in _OWN if key in note and _is_short(note[key])}
    if is_way(note.get("hops")):
        own["hops"] = note["hops"]  # Without the hops, a message may travel in a circle.
    yield own | {"attempts": known[-1:]}
    yield own


def is_way(hops: object) -> bool:
    """Returns whether *hops* is a valid list of at most HOPS_MAX queue manager names."""
    if type(hops) is not list or len(hops) > HOPS_MAX:
        return False
    return all(type(hop) is str and 0 < len(hop) <= NAME_MAX for hop in hops)


def _is_short(value: Any) -> bool:
    return type(value) is int or (type(value) is str and len(value) <= REASON_TEXT_MAX)


def of_peer(data: bytes) -> Note:
    """Returns the decoded note *data* from a peer, or an empty note if it is not valid.

    Such a note may have about 60 lists and maps. Those of a valid note are 14 at most.
    """
    return decode(data, PEER_BUILT_MAX_BYTES) if len(data) <= NOTE_MAX_BYTES else {}


def with_attempt(
    note: Note, us: int, code: int, reason: str = "", text: str = "", client: str = ""
) -> Note:
    """Returns *note* with a failure added. The note keeps the first and the last few failures."""
    attempts = note.get("attempts")
    known = attempts if type(attempts) is list else []
    known = [*known, [us, code, reason, text, client]]
    if len(known) > ATTEMPTS_MAX:
        known = [known[0], *known[-(ATTEMPTS_MAX - 1) :]]
    return note | {"attempts": known}


def decode(data: bytes, built_max_bytes: int = 0) -> Note:
    """Returns the decoded note *data*, or an empty note if *data* is not a valid note.

    It is invalid as well if its lists and maps use more than *built_max_bytes* (see unpack()).
    """
    if not data:
        return {}
    try:
        found = unpack(data, built_max_bytes)
    except FrameMalformed:
        return {}
    return found if type(found) is dict else {}


def original_queue(note: Note, manager: str) -> str:
    """Returns the name of a dead letter's original queue at queue manager *manager*, or ""."""
    name, home_ = note.get("queue"), note.get("manager")
    if type(name) is not str or type(home_) is not str:
        return ""
    return name if home_ == manager else f"{name}@{home_}"


def retries(note: Note) -> int:
    """Returns the number of times that a message was returned, at most RETRIES_MAX."""
    found = note.get("retries")
    return min(found, RETRIES_MAX) if type(found) is int and found > 0 else 0


def facts_of(note: Note) -> dict[str, Any]:
    """Returns the properties of a dead letter by their names in selectors."""
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
