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
    ├── LocalProtocolError    we were about to break it: a bug of the caller
    └── RequestError          a request cannot be done: it is answered, the connection goes on

Codes are numbered in ranges of one hundred per noun, and never used again for something else.
"""

from enum import IntEnum

TEXT_MAX = 1_000  # characters of what an error says; a message may carry 4096


class ErrorClass(IntEnum):
    """What the sender of a request may do next."""

    RETRY_LATER = 1  # The same request may succeed later.
    NEVER = 2  # The same request fails again.
    UNKNOWN_OUTCOME = 3  # It may have been done: ask, or send it again if it is idempotent.


class ErrorCode(IntEnum):
    """The numbers on the wire."""

    # 100: the connection
    FRAME_TOO_LARGE = 100
    FRAME_MALFORMED = 101
    FIELD_INVALID = 102
    STATE_VIOLATION = 103
    CREDIT_EXCEEDED = 104
    VERSION_UNSUPPORTED = 105
    FEATURE_UNSUPPORTED = 106
    LIVENESS_EXPIRED = 107
    PEER_KEPT_OUT = 108
    SHUTTING_DOWN = 109
    CONNECTIONS_EXHAUSTED = 110
    NOT_AUTHORIZED = 111
    INTERNAL_ERROR = 112
    CONNECTION_UNKNOWN = 113
    # 200: any request
    OPERATION_UNKNOWN = 200
    CANCELLED = 201
    NAME_INVALID = 202
    VALUE_INVALID = 203
    STORE_DAMAGED = 204
    # 300: queues
    QUEUE_UNKNOWN = 300
    QUEUE_EXISTS = 301
    QUEUE_NOT_EMPTY = 302
    QUEUE_FULL = 303
    QUEUE_BYTES_FULL = 304
    QUEUE_DELETED = 305
    QUEUE_IS_REMOTE = 306
    QUEUE_IS_TRANSMISSION = 307
    QUEUES_EXHAUSTED = 308
    QUEUE_IN_USE = 309
    PUT_INHIBITED = 310
    GET_INHIBITED = 311
    # 400: messages
    RECORD_MALFORMED = 400
    CHECKSUM_MISMATCH = 401
    MESSAGE_TOO_LARGE = 402
    DUPLICATE_MESSAGE = 403
    STORE_FULL = 404
    RECORD_DAMAGED = 405
    # 500: leases and consumers
    LEASE_LOST = 500
    CONSUMER_UNKNOWN = 501
    CONSUMER_EXISTS = 502
    CONSUMERS_EXHAUSTED = 503
    LEASES_EXHAUSTED = 504
    # 600: streams: producers and links
    STREAM_UNKNOWN = 600
    WINDOW_EXCEEDED = 601
    COMMIT_OUT_OF_RANGE = 602
    PRODUCER_UNKNOWN = 603
    PRODUCER_FENCED = 604
    PRODUCERS_EXHAUSTED = 605
    # 700: links
    LINK_UNKNOWN = 700
    LINK_EXISTS = 701
    LINK_NOT_EMPTY = 702
    LINKS_EXHAUSTED = 703
    PEER_WRONG = 704
    PEER_STORE_CHANGED = 705
    RESTORED = 706
    PEER_RESTORED = 707
    LINK_FENCED = 708
    # 800: snapshots
    SNAPSHOT_FAILED = 800
    SNAPSHOT_RUNNING = 801


_RETRY = {
    ErrorCode.LIVENESS_EXPIRED,
    ErrorCode.PEER_KEPT_OUT,
    ErrorCode.SHUTTING_DOWN,
    ErrorCode.CONNECTIONS_EXHAUSTED,
    ErrorCode.QUEUE_FULL,
    ErrorCode.QUEUE_BYTES_FULL,
    ErrorCode.QUEUE_NOT_EMPTY,
    ErrorCode.QUEUE_IN_USE,
    ErrorCode.PUT_INHIBITED,
    ErrorCode.GET_INHIBITED,
    ErrorCode.STORE_FULL,
    ErrorCode.LEASES_EXHAUSTED,
    ErrorCode.PRODUCERS_EXHAUSTED,
    ErrorCode.LINK_NOT_EMPTY,
    ErrorCode.SNAPSHOT_FAILED,
    ErrorCode.SNAPSHOT_RUNNING,
}


def class_of(code: int) -> ErrorClass:
    """Return what a peer may do after *code*; an unknown code is not worth a retry."""
    if code == ErrorCode.INTERNAL_ERROR:
        return ErrorClass.UNKNOWN_OUTCOME
    return ErrorClass.RETRY_LATER if code in _RETRY else ErrorClass.NEVER


def name_of(code: int) -> str:
    """Return the name of *code*, or its number where this version does not know it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"ERROR_{code}"


class LocalProtocolError(Exception):
    """The caller asked for something that the protocol forbids in this state."""


class RequestError(Exception):
    """A request that cannot be done; the connection goes on.

    A text too long for a message is cut: it may quote what a peer sent.
    """

    def __init__(self, code: int, text: str, retry_after_ms: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.text = text[:TEXT_MAX]
        self.retry_after_ms = retry_after_ms

    @property
    def error_class(self) -> ErrorClass:
        """What the caller may do next."""
        return class_of(self.code)

    def __str__(self) -> str:
        return f"{name_of(self.code)}: {self.text}"


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
