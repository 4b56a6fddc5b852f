"""The exceptions of the client.

    Exception
    ├── ConnectFailed           the client could not connect (has a reason and a hint)
    │   └── AddressInvalid      the address is invalid (also a ValueError)
    └── RequestError            a request failed (has a code, a text and an error class)
        ├── UnknownOutcome      the result is lost, and the request may have succeeded
        │   └── RequestTimeout  no reply to a request arrived in time (also a TimeoutError)
        ├── ConnectionEnded     the client has ended
        ├── MessageDamaged      the record of a message cannot be read
        ├── QueueUnknown        QUEUE_UNKNOWN
        ├── QueueFull           QUEUE_FULL, QUEUE_BYTES_FULL, USER_BYTES_EXHAUSTED
        ├── Duplicate           DUPLICATE_MESSAGE
        ├── LeaseLost           LEASE_LOST
        └── NotAuthorized       NOT_AUTHORIZED

``except RequestError`` catches all errors of an open client. ``code`` is an ErrorCode.
"""

from typing import TYPE_CHECKING

from qmgr_protocol.errors import ErrorClass as ErrorClass
from qmgr_protocol.errors import ErrorCode as ErrorCode
from qmgr_protocol.errors import RequestError as RequestError
from qmgr_protocol.errors import class_of

if TYPE_CHECKING:
    from qmgr_client.message import Message

GOODBYE = "the queue manager ended the connection: "  # followed by the reason


class ConnectFailed(Exception):
    """The client could not connect to the queue manager. ``why`` states the reason.

    ``code`` is the error code if the queue manager refused the last attempt, else 0.
    """

    def __init__(self, address: str, why: str, hint: str, code: int = 0) -> None:
        super().__init__(f"cannot connect to {address}: {why}; {hint}")
        self.address = address
        self.why = why
        self.hint = hint
        self.code = code


class AddressInvalid(ConnectFailed, ValueError):
    """The address is invalid. The client did not try to connect."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why, "write it as 127.0.0.1:7470 or unix:/run/qmgrd.sock")


class UnknownOutcome(RequestError):
    """The result of the request is lost. The request may have succeeded."""

    @property
    def error_class(self) -> ErrorClass:
        """The next step: check the result before you repeat the request."""
        return ErrorClass.UNKNOWN_OUTCOME


class RequestTimeout(UnknownOutcome, TimeoutError):
    """No reply to a request arrived in time. A consumer may still have processed the request."""

    def __init__(self, queue: str, timeout_ms: int) -> None:
        text = f"no reply to a request on {queue} within {timeout_ms:,} ms: is a consumer running?"
        super().__init__(ErrorCode.MESSAGE_EXPIRED, text)


class QueueUnknown(RequestError, codes=[ErrorCode.QUEUE_UNKNOWN]):
    """The queue does not exist. Create it, or correct the name."""


class QueueFull(
    RequestError,
    codes=[ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_BYTES_FULL, ErrorCode.USER_BYTES_EXHAUSTED],
):
    """The queue has reached a limit of messages or bytes. Wait, then put again."""


class Duplicate(RequestError, codes=[ErrorCode.DUPLICATE_MESSAGE]):
    """The put is a duplicate: the queue has or remembers a message with the same UID."""


class LeaseLost(RequestError, codes=[ErrorCode.LEASE_LOST]):
    """The lease of the message has ended, and another consumer may have the message."""


class NotAuthorized(RequestError, codes=[ErrorCode.NOT_AUTHORIZED]):
    """The client is not authorized for this request. Ask the operator."""


class ConnectionEnded(RequestError):
    """The client was closed, or the queue manager refuses this client."""

    def __init__(self, code: int, text: str, *, was_sent: bool = False) -> None:
        super().__init__(code, text)
        self.was_sent = was_sent  # whether the failed request had been sent

    @property
    def error_class(self) -> ErrorClass:
        """The next step after you have connected a new client."""
        return ErrorClass.UNKNOWN_OUTCOME if self.was_sent else class_of(self.code)

    def once_sent(self) -> "ConnectionEnded":
        """Returns this error in the form for a request that was sent and may have succeeded."""
        return ConnectionEnded(self.code, self.text, was_sent=True)


class MessageDamaged(RequestError):
    """The record of a message cannot be read. The message is leased: settle it.

    ``message`` has the fields of the delivery. Its body is the whole record.
    """

    def __init__(self, message: "Message") -> None:
        super().__init__(ErrorCode.RECORD_DAMAGED, f"{message.queue}: {message.damage}")
        self.message = message
