"""The status message of a group that is put or read over several units of work.

Each unit replaces it, the last one removes it: so it says what is committed, and no more. It is of
one *run*: of what is done (put or get), the queue and the name. Its correlation id is the name, as
operators look for it; what it says tells it from the status of another run of that name.
"""

import hashlib
import json
from typing import NamedTuple

from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown
from qmgr_protocol.record import CORRELATION_MAX_BYTES, GROUP_ID_BYTES, GROUP_NUMBER_MAX, Uid

CONTENT_TYPE = "application/json"
CLAIM_ORIGIN = "group.status"
SHOWN_MAX = 80  # characters of a name that is refused


class Run(NamedTuple):
    """What puts or reads a group."""

    verb: str  # put_group or get_group
    queue: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.name!r} on {self.queue}"

    @property
    def key(self) -> bytes:
        """The correlation id of its status.

        Raises:
            RequestError: VALUE_INVALID.
        """
        key = self.name.encode(errors="replace") if isinstance(self.name, str) else b""
        if not 0 < len(key) <= CORRELATION_MAX_BYTES:
            said = repr(self.name)[:SHOWN_MAX]
            text = f"the name {said} of a status is not 1 to {CORRELATION_MAX_BYTES} bytes of text"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        return key

    @property
    def claim(self) -> Uid:
        """The UID of its first status: of two that begin at once, one is refused."""
        digest = hashlib.sha256(repr(tuple(self)).encode(errors="replace")).digest()
        return Uid(CLAIM_ORIGIN, int.from_bytes(digest[:8], "big") >> 1)


class GroupStatus(NamedTuple):
    """How far a group has come."""

    group_id: bytes
    number: int  # of the last message that is done

    def __str__(self) -> str:
        return f"group {shown(self.group_id)}, done up to number {self.number}"


def outgoing(run: Run, status: GroupStatus) -> Outgoing:
    """Return the status message."""
    value = run._asdict() | {"group": status.group_id.hex(), "number": status.number}
    return Outgoing(json.dumps(value).encode(), correlation_id=run.key, content_type=CONTENT_TYPE)


def read(message: Message) -> tuple[Run, GroupStatus]:
    """Return what a status message says.

    Raises:
        RequestError: VALUE_INVALID, it is none.
    """
    try:
        value = json.loads(message.body)
        run = Run(value["verb"], value["queue"], value["name"])
        status = GroupStatus(bytes.fromhex(value["group"]), value["number"])
        sound = type(status.number) is int and 0 < status.number <= GROUP_NUMBER_MAX
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound or len(status.group_id) != GROUP_ID_BYTES:
        text = (
            f"the message {message.uid} on {message.queue} is no status of a group: give the "
            "status a queue, or a name, of its own"
        )
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return run, status
