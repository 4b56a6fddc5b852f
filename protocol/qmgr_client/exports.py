"""The public names that qmgr_client, qmgr_client.aio and qmgr_client.blocking have in common."""

from qmgr_client.dead_letter import Attempt, DeadLetter
from qmgr_client.duration import Duration
from qmgr_client.errors import (
    AddressInvalid,
    ConnectFailed,
    ConnectionEnded,
    Duplicate,
    ErrorClass,
    ErrorCode,
    LeaseLost,
    MessageDamaged,
    NotAuthorized,
    QueueFull,
    QueueUnknown,
    RequestError,
    RequestTimeout,
    UnknownOutcome,
)
from qmgr_client.message import Message
from qmgr_client.outgoing import Group, Outgoing, PutResult
from qmgr_protocol.record import Uid
from qmgr_protocol.tls import TlsOptions

__all__ = [
    "AddressInvalid",
    "Attempt",
    "ConnectFailed",
    "ConnectionEnded",
    "DeadLetter",
    "Duplicate",
    "Duration",
    "ErrorClass",
    "ErrorCode",
    "Group",
    "LeaseLost",
    "Message",
    "MessageDamaged",
    "NotAuthorized",
    "Outgoing",
    "PutResult",
    "QueueFull",
    "QueueUnknown",
    "RequestError",
    "RequestTimeout",
    "TlsOptions",
    "Uid",
    "UnknownOutcome",
]
