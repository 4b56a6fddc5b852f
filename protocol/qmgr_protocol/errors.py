"""The errors of the protocol.

    Exception
    ├── RemoteProtocolError   The peer broke the protocol. Its connection closes with the code.
    │   ├── FrameTooLarge     The length exceeds the limit. No data is buffered.
    │   ├── FrameMalformed    The frame is not one msgpack array within the decoder's limits.
    │   ├── FieldInvalid      A field has the wrong type or is out of range.
    │   ├── StateViolation    This state or role does not allow the message.
    │   ├── CreditExceeded    More messages are in flight than the handshake allows.
    │   ├── WindowExceeded    An id is too far ahead of the commit id.
    │   └── CommitOutOfRange  A commit covers an id that was never assigned.
    ├── LocalProtocolError    The caller was about to break the protocol, which is a bug.
    └── RequestError          A request cannot be done. The connection stays open.

error_code.py contains the texts of each code.
"""

from collections.abc import Iterable
from typing import ClassVar, Self, cast

from qmgr_protocol.error_code import ErrorClass as ErrorClass
from qmgr_protocol.error_code import ErrorCode as ErrorCode

TEXT_MAX = 1_000  # maximum number of characters of an error text; a message may carry 4,096


def class_of(code: int) -> ErrorClass:
    """Returns the class of *code*, or NEVER if this version does not know the code."""
    return ErrorCode(code).error_class


def name_of(code: int) -> str:
    """Returns the name of *code*, or a name such as ERROR_4711 if the code is unknown."""
    return ErrorCode(code).name


class LocalProtocolError(Exception):
    """The caller attempted an operation that the protocol forbids in this state."""


class RequestError(Exception):
    """A request that cannot be done. The connection stays open.

    The text may quote data of a peer. Therefore, a text that is too long for a message is cut.
    ``code`` is an ErrorCode. An unknown code has a name such as ERROR_4711 and the class NEVER.

    A subclass may name its *codes*. A RequestError with such a code is an instance of the subclass.
    """

    _kinds: ClassVar[dict[int, type["RequestError"]]] = {}

    def __init_subclass__(cls, codes: Iterable[ErrorCode] = ()) -> None:
        RequestError._kinds |= dict.fromkeys(codes, cls)

    def __new__(cls, code: int, *args: object, **named: object) -> Self:
        """Creates an instance of the subclass for *code*, unless a subclass is called directly."""
        kind = RequestError._kinds.get(code, cls) if cls is RequestError else cls
        return cast(Self, super().__new__(kind))

    def __init__(self, code: int, text: str, retry_after_ms: int = 0) -> None:
        super().__init__(text)
        # Most codes are already an ErrorCode.
        self.code = code if type(code) is ErrorCode else ErrorCode(code)
        self.text = text[:TEXT_MAX]
        self.retry_after_ms = retry_after_ms

    @property
    def error_class(self) -> ErrorClass:
        """The class of the error, which states whether the caller may send the request again."""
        return class_of(self.code)

    def __str__(self) -> str:
        name = name_of(self.code)
        return f"{name}: {self.text}" if self.text else name


class RemoteProtocolError(Exception):
    """The peer broke the protocol. The connection is closed with ``code``."""

    code = ErrorCode.FRAME_MALFORMED


class FrameTooLarge(RemoteProtocolError):
    """A frame whose length prefix exceeds the limit."""

    code = ErrorCode.FRAME_TOO_LARGE

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"frame of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes")


class FrameMalformed(RemoteProtocolError):
    """A frame that is not one msgpack array within the decoder's limits."""

    code = ErrorCode.FRAME_MALFORMED


class FieldInvalid(RemoteProtocolError):
    """A message with a field that is missing, of the wrong type or out of range."""

    code = ErrorCode.FIELD_INVALID

    def __init__(self, message: str, field: str, why: str) -> None:
        super().__init__(f"{message}.{field}: {why}")


class StateViolation(RemoteProtocolError):
    """A message that the state of the connection does not allow."""

    code = ErrorCode.STATE_VIOLATION

    def __init__(self, message: str, state: str) -> None:
        super().__init__(f"{message} is not allowed in state {state}")


class CreditExceeded(RemoteProtocolError):
    """More requests, puts or bytes are outstanding than the handshake allows."""

    code = ErrorCode.CREDIT_EXCEEDED

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{size} {what} outstanding; the limit is {limit}")


class WindowExceeded(RemoteProtocolError):
    """An id that is too far ahead of the commit id."""

    code = ErrorCode.WINDOW_EXCEEDED

    def __init__(self, seq_id: int, commit_id: int, window: int) -> None:
        super().__init__(f"id {seq_id} exceeds commit id {commit_id} + window {window}")


class CommitOutOfRange(RemoteProtocolError):
    """A commit of an id that was never assigned."""

    code = ErrorCode.COMMIT_OUT_OF_RANGE

    def __init__(self, commit_id: int, next_id: int) -> None:
        super().__init__(f"commit id {commit_id}, but the next id to assign is {next_id}")
