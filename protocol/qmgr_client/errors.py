"""What can go wrong for a caller, beside the refusals of the queue manager.

    Exception
    ├── ConnectFailed           no connection came about: what, where, what to try
    │   └── AddressInvalid      none was tried: also a ValueError
    └── RequestError            of the protocol: its code, its text, what may be done next
        ├── UnknownOutcome      it may have been done: the queue manager cannot tell any more
        │   └── RequestTimeout  a request had no reply in time: also a TimeoutError
        ├── ConnectionEnded     this client is done, for good
        ├── MessageDamaged      a message came whose record cannot be read
        ├── QueueUnknown        QUEUE_UNKNOWN
        ├── QueueFull           QUEUE_FULL, QUEUE_BYTES_FULL
        ├── Duplicate           DUPLICATE_MESSAGE
        ├── LeaseLost           LEASE_LOST
        └── NotAuthorized       NOT_AUTHORIZED

So ``except RequestError`` meets whatever an open client may answer. ``code`` is an ErrorCode.
"""

from typing import TYPE_CHECKING

from qmgr_protocol.errors import ErrorClass as ErrorClass
from qmgr_protocol.errors import ErrorCode as ErrorCode
from qmgr_protocol.errors import RequestError as RequestError
from qmgr_protocol.errors import class_of

if TYPE_CHECKING:
    from qmgr_client.message import Message

GOODBYE = "the queue manager says goodbye: "  # before why it closes a connection


class ConnectFailed(Exception):
    """No connection to the queue manager came about."""

    def __init__(self, address: str, why: str, hint: str) -> None:
        super().__init__(f"cannot connect to {address}: {why}; {hint}")
        self.address = address
        self.why = why
        self.hint = hint


class AddressInvalid(ConnectFailed, ValueError):
    """What names no place where a queue manager could listen; nothing was tried."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why, "write it as 127.0.0.1:7470 or unix:/run/qmgrd.sock")


class UnknownOutcome(RequestError):
    """What was asked may have been done or not, and nobody can tell any more."""

    @property
    def error_class(self) -> ErrorClass:
        """What the caller may do next: look, before asking again."""
        return ErrorClass.UNKNOWN_OUTCOME


class RequestTimeout(UnknownOutcome, TimeoutError):
    """A request to other applications had no reply in time; it may have been worked on."""

    def __init__(self, queue: str, timeout_ms: int) -> None:
        text = f"no reply to a request on {queue} within {timeout_ms:,} ms: does anybody reply?"
        super().__init__(ErrorCode.MESSAGE_EXPIRED, text)


class QueueUnknown(RequestError, codes=[ErrorCode.QUEUE_UNKNOWN]):
    """There is no queue of that name: create it, or correct the name."""


class QueueFull(RequestError, codes=[ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_BYTES_FULL]):
    """The queue holds as many messages or bytes as it may: wait, then put again."""


class Duplicate(RequestError, codes=[ErrorCode.DUPLICATE_MESSAGE]):
    """The queue has, or remembers, a message of that UID: what was to be put is stored."""


class LeaseLost(RequestError, codes=[ErrorCode.LEASE_LOST]):
    """The lease of the message is over, so another consumer may have it."""


class NotAuthorized(RequestError, codes=[ErrorCode.NOT_AUTHORIZED]):
    """This client may not do that: ask the operator."""


class ConnectionEnded(RequestError):
    """The client is closed, or the queue manager sent it away for good."""

    def __init__(self, code: int, text: str, *, was_sent: bool = False) -> None:
        super().__init__(code, text)
        self.was_sent = was_sent  # and never answered

    @property
    def error_class(self) -> ErrorClass:
        """What the caller may do next, with a new client."""
        return ErrorClass.UNKNOWN_OUTCOME if self.was_sent else class_of(self.code)

    def once_sent(self) -> "ConnectionEnded":
        """Return this error for something that was sent, so that it may have been done."""
        return ConnectionEnded(self.code, self.text, was_sent=True)


class MessageDamaged(RequestError):
    """A message whose record cannot be read. It is leased all the same: ack or release it.

    ``message`` has what its delivery says, and the whole record as its body.
    """

    def __init__(self, message: "Message") -> None:
        super().__init__(ErrorCode.RECORD_DAMAGED, f"{message.queue}: {message.damage}")
        self.message = message
