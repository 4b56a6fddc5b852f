"""The status message of a group that several units of work put or process.

Each unit replaces the status, and the last unit removes it. The status therefore records exactly
the committed messages. A status belongs to one *run*: the verb (put or get), the queue and the
name. The correlation id of the status is the name, so operators can find it. The body identifies
the run.
"""

import json
from typing import NamedTuple

from qmgr_client.key import uid_of
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown
from qmgr_protocol.record import CORRELATION_MAX_BYTES, GROUP_ID_BYTES, GROUP_NUMBER_MAX, Uid

CONTENT_TYPE = "application/json"
SHOWN_MAX = 80  # maximum number of characters of an invalid name that an error quotes


class GroupRun(NamedTuple):
    """The call that puts or processes a group."""

    verb: str  # put_group or get_group
    queue: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.name!r} on {self.queue}"

    @property
    def key(self) -> bytes:
        """The correlation id of the status of this run.

        Raises:
            RequestError: VALUE_INVALID if the name is empty, too long or not a str.
        """
        key = self.name.encode(errors="replace") if isinstance(self.name, str) else b""
        if not 0 < len(key) <= CORRELATION_MAX_BYTES:
            name = repr(self.name)[:SHOWN_MAX]
            text = f"the status name {name} must have 1 to {CORRELATION_MAX_BYTES} bytes of text"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        return key

    @property
    def claim(self) -> Uid:
        """The UID of the first status of this run, which is that of a key.

        Two runs that start at the same time use the same UID.
        """
        return uid_of(f"group.status {tuple(self)}")


class GroupStatus(NamedTuple):
    """The progress of a group."""

    group_id: bytes
    number: int  # number of the last committed message

    def __str__(self) -> str:
        return f"group {shown(self.group_id)}, done up to number {self.number}"


def outgoing(run: GroupRun, status: GroupStatus) -> Outgoing:
    """Returns the status message of a run."""
    value = run._asdict() | {"group": status.group_id.hex(), "number": status.number}
    return Outgoing(json.dumps(value).encode(), correlation_id=run.key, content_type=CONTENT_TYPE)


def read(message: Message) -> tuple[GroupRun, GroupStatus]:
    """Returns the run and the progress in a status message.

    Raises:
        RequestError: VALUE_INVALID if the message is not a status.
    """
    try:
        value = json.loads(message.body)
        run = GroupRun(value["verb"], value["queue"], value["name"])
        status = GroupStatus(bytes.fromhex(value["group"]), value["number"])
        sound = type(status.number) is int and 0 < status.number <= GROUP_NUMBER_MAX
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound or len(status.group_id) != GROUP_ID_BYTES:
        text = (
            f"message {message.uid} on {message.queue} is not the status of a group: use "
            "another status queue, or another name"
        )
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return run, status
