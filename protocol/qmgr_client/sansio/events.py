"""What the core has to tell its shell. A ticket names what the shell asked for."""

from typing import Any, NamedTuple, TypeAlias

from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import PutResult
from qmgr_protocol.errors import RequestError
from qmgr_protocol.messages import Welcome


class Ready(NamedTuple):
    """The queue manager has welcomed this connection."""

    welcome: Welcome


class PutDone(NamedTuple):
    """The one result of a put."""

    ticket: int
    result: PutResult | RequestError


class Settled(NamedTuple):
    """The one result of an ack or a release."""

    ticket: int
    error: RequestError | None


class RequestDone(NamedTuple):
    """The value of a request: a list of messages for a get, else as PROTOCOL.md says."""

    ticket: int
    value: Any


class RequestFailed(NamedTuple):
    """A request was refused."""

    ticket: int
    error: RequestError


class Delivered(NamedTuple):
    """A consumer has messages to take."""

    ticket: int


class ConsumerEnded(NamedTuple):
    """Nothing more comes to a consumer: it was cancelled, or *error* says why."""

    ticket: int
    error: RequestError | None


class ProducerLost(NamedTuple):
    """The queue manager cannot go on with the producer: puts wait until the shell names a new one.

    What had been sent and not answered has failed with an unknown outcome.
    """

    error: RequestError


class Disconnected(NamedTuple):
    """This connection is over: close it, and dial again, not before the wait."""

    code: int
    text: str
    retry_after_ms: int


class Failed(NamedTuple):
    """This client is done: all that was open has failed with *error*. Close the connection."""

    error: ConnectionEnded


Event: TypeAlias = (
    Ready
    | PutDone
    | Settled
    | RequestDone
    | RequestFailed
    | Delivered
    | ConsumerEnded
    | ProducerLost
    | Disconnected
    | Failed
)
Events: TypeAlias = list[Event]
