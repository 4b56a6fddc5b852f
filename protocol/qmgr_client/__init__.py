"""The client of a queue manager: one sans-I/O core, an asyncio shell and a blocking one.

    from qmgr_client import Message, QueueFull, connect          # connect blocks
    from qmgr_client.aio import connect                          # for asyncio

What an application needs is here, whichever shell it uses. A name is imported when it is first
asked for, so that a program pays for what it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qmgr_client.blocking import Client as Client
    from qmgr_client.blocking import connect as connect
    from qmgr_client.blocking import worker as worker
    from qmgr_client.dead_letter import DeadLetter as DeadLetter
    from qmgr_client.duration import Duration as Duration
    from qmgr_client.errors import AddressInvalid as AddressInvalid
    from qmgr_client.errors import ConnectFailed as ConnectFailed
    from qmgr_client.errors import ConnectionEnded as ConnectionEnded
    from qmgr_client.errors import Duplicate as Duplicate
    from qmgr_client.errors import LeaseLost as LeaseLost
    from qmgr_client.errors import MessageDamaged as MessageDamaged
    from qmgr_client.errors import NotAuthorized as NotAuthorized
    from qmgr_client.errors import QueueFull as QueueFull
    from qmgr_client.errors import QueueUnknown as QueueUnknown
    from qmgr_client.errors import RequestTimeout as RequestTimeout
    from qmgr_client.errors import UnknownOutcome as UnknownOutcome
    from qmgr_client.message import Message as Message
    from qmgr_client.outgoing import Group as Group
    from qmgr_client.outgoing import Outgoing as Outgoing
    from qmgr_client.outgoing import PutResult as PutResult
    from qmgr_protocol.errors import ErrorClass as ErrorClass
    from qmgr_protocol.errors import ErrorCode as ErrorCode
    from qmgr_protocol.errors import RequestError as RequestError
    from qmgr_protocol.record import Uid as Uid

_HOMES = {
    "qmgr_client.blocking": ("Client", "connect", "worker"),
    "qmgr_client.dead_letter": ("DeadLetter",),
    "qmgr_client.duration": ("Duration",),
    "qmgr_client.errors": (
        "AddressInvalid",
        "ConnectFailed",
        "ConnectionEnded",
        "Duplicate",
        "ErrorClass",
        "ErrorCode",
        "LeaseLost",
        "MessageDamaged",
        "NotAuthorized",
        "QueueFull",
        "QueueUnknown",
        "RequestError",
        "RequestTimeout",
        "UnknownOutcome",
    ),
    "qmgr_client.message": ("Message",),
    "qmgr_client.outgoing": ("Group", "Outgoing", "PutResult", "Uid"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    """Return what is exported as *name*, importing it now."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return found


def __dir__() -> list[str]:
    """Return what the package offers, imported or not."""
    return sorted({*globals(), *_HOME_OF})
