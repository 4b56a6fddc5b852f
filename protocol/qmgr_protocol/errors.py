"""Every error that the protocol knows.

    Exception
    ├── RemoteProtocolError   the peer broke the protocol: its code is sent, the connection closed
    │   ├── FrameTooLarge     a length beyond the limit, refused before anything is buffered
    │   ├── FrameMalformed    not one msgpack array, or beyond the decoder's limits
    │   ├── FieldInvalid      a field of the wrong type or out of range
    │   ├── StateViolation    a message that this state or role does not allow
    │   ├── CreditExceeded    more in flight than the handshake grants
    │   ├── WindowExceeded    an id too far ahead of the commit id
    │   └── CommitOutOfRange  a commit of an id that was never assigned
    ├── LocalProtocolError    the caller was about to break the protocol: a bug
    └── RequestError          a request cannot be done: it is answered, the connection stays open

error_code.py has the texts of each code.
"""

from collections.abc import Iterable
from typing import ClassVar, Self, cast

from qmgr_protocol.error_code import ErrorClass as ErrorClass
from qmgr_protocol.error_code import ErrorCode as ErrorCode

TEXT_MAX = 1_000  # characters of the text of an error; a message may carry 4096


def class_of(code: int) -> ErrorClass:
    """Returns the class of *code*: NEVER if this version does not know it."""
    return ErrorCode(code).error_class


def name_of(code: int) -> str:
    """Returns the name of *code*, such as ERROR_4711 if this version does not know it."""
    return ErrorCode(code).name


class LocalProtocolError(Exception):
    """The caller asked for something that the protocol forbids in this state."""


class RequestError(Exception):
    """A request that cannot be done; the connection stays open.

    A text too long for a message is cut, as it may quote what a peer sent. ``code`` is an
    ErrorCode: an unknown one has a name such as ERROR_4711 and the class NEVER.

    A subclass may name its *codes*. A RequestError made with such a code is of that subclass.
    """

    _kinds: ClassVar[dict[int, type["RequestError"]]] = {}

    def __init_subclass__(cls, codes: Iterable[ErrorCode] = ()) -> None:
        RequestError._kinds |= dict.fromkeys(codes, cls)

    def __new__(cls, code: int, *args: object, **named: object) -> Self:
        """Makes an error of the subclass for *code*, unless a subclass is called directly."""
        kind = RequestError._kinds.get(code, cls) if cls is RequestError else cls
        return cast(Self, super().__new__(kind))

    def __init__(self, code: int, text: str, retry_after_ms: int = 0) -> None:
        super().__init__(text)
        self.code = code if type(code) is ErrorCode else ErrorCode(code)  # Most are one already.
        self.text = text[:TEXT_MAX]
        self.retry_after_ms = retry_after_ms

    @property
    def error_class(self) -> ErrorClass:
        """Whether the caller may send the request again."""
        return class_of(self.code)

    def __str__(self) -> str:
        name = name_of(self.code)
        return f"{name}: {self.text}" if self.text else name


class RemoteProtocolError(Exception):
    """The peer broke the protocol. Its connection is closed with ``code``."""

    code = ErrorCode.FRAME_MALFORMED


class FrameTooLarge(RemoteProtocolError):
    """A frame whose length prefix is beyond the limit."""

    code = ErrorCode.FRAME_TOO_LARGE

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"frame of {size_bytes} bytes, at most {limit_bytes}")


class FrameMalformed(RemoteProtocolError):
    """A frame that is not one msgpack array within the decoder's limits."""

    code = ErrorCode.FRAME_MALFORMED


class FieldInvalid(RemoteProtocolError):
    """A message with a field missing, of the wrong type or out of range."""

    code = ErrorCode.FIELD_INVALID

    def __init__(self, message: str, field: str, why: str) -> None:
        super().__init__(f"{message}.{field}: {why}")


class StateViolation(RemoteProtocolError):
    """A message that the state of the connection does not allow."""

    code = ErrorCode.STATE_VIOLATION

    def __init__(self, message: str, state: str) -> None:
        super().__init__(f"{message} is not allowed in state {state}")


class CreditExceeded(RemoteProtocolError):
    """More requests, puts or bytes outstanding than the handshake grants."""

    code = ErrorCode.CREDIT_EXCEEDED

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{size} {what} outstanding, at most {limit}")


class WindowExceeded(RemoteProtocolError):
    """An id too far ahead of the commit id."""

    code = ErrorCode.WINDOW_EXCEEDED

    def __init__(self, seq_id: int, commit_id: int, window: int) -> None:
        super().__init__(f"id {seq_id} is past {commit_id} + window {window}")


class CommitOutOfRange(RemoteProtocolError):
    """A commit of an id that was never assigned here."""

    code = ErrorCode.COMMIT_OUT_OF_RANGE

    def __init__(self, commit_id: int, next_id: int) -> None:
        super().__init__(f"commit id {commit_id}, but the next id to assign is {next_id}")
