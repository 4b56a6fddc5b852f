"""The end of a connection that the queue manager ended, or in which it broke the protocol."""

from qmgr_client.errors import GOODBYE, ConnectionEnded
from qmgr_client.sansio.events import Disconnected
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode, RemoteProtocolError, class_of


def ended_by(goaway: m.Goaway, *, can_renew: bool = True) -> Disconnected | ConnectionEnded:
    """Returns the event to connect again, or the error with which the client ends.

    Args:
        goaway: The goodbye.
        can_renew: Whether the client may have a newer token at its next login.
    """
    code, text = goaway.code, f"{GOODBYE}{goaway.text}"
    if code == ErrorCode.TOKEN_EXPIRED and not can_renew:
        return ConnectionEnded(code, text)
    if class_of(code) is ErrorClass.RETRY_LATER or code == ErrorCode.INTERNAL_ERROR:
        return Disconnected(code, text, goaway.retry_after_ms)
    return ConnectionEnded(code, text)


def broken_by(error: RemoteProtocolError, *, is_open: bool) -> ConnectionEnded:
    """Returns the error with which the client ends after the queue manager broke the protocol."""
    failure = "the queue manager broke the protocol" if is_open else "no queue manager answers"
    return ConnectionEnded(error.code, f"{failure}: {error}")
