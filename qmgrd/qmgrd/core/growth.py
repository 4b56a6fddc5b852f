"""Refuses requests that would grow a full store, before their handlers see them.

Each request declares in qmgr_protocol.messages how many rows it may add to the store.

A request that opens an existing object is accepted even if the store is full. An application can
therefore declare its queue, or resume its producer, and then make room. Requests that store single
messages reserve room in their handlers, so that message ids stay in sequence.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import RequestError
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.operation import Growth
from qmgrd.core.sessions.request_part import Arrived

if TYPE_CHECKING:
    from qmgrd.core.broker import Broker

Kind = TypeVar("Kind", bound=m.Request)

ROWS_BYTES = 1024  # room in bytes for a request, in addition to twice its size

GROWTH: dict[type[Arrived], Growth] = {
    found.kind: found.request.growth for found in OPERATIONS.values() if found.request is not None
}
GROWING = frozenset(
    kind for kind, growth in GROWTH.items() if growth in (Growth.ADDS, Growth.OPERATES)
)

# Any stands for the message type of each row, because the type differs from row to row.
_Row: TypeAlias = tuple[type[object], tuple[Growth, Callable[["Broker", Any], bool]]]


def _has_producer(broker: "Broker", message: m.ProducerOpen) -> bool:
    return broker.streams.knows(message.producer_id)


def _has_queue(broker: "Broker", message: m.QueueCreate) -> bool:
    return message.queue in broker.catalogue.queues


def _has_link(broker: "Broker", message: m.LinkCreate) -> bool:
    return message.link in broker.catalogue.links


def _is_allowed(broker: "Broker", message: m.LinkAllow) -> bool:
    return broker.context.peers.is_allowed(message.manager)


def _has_user(broker: "Broker", message: m.GrantCreate) -> bool:
    return message.user in broker.users.users or message.role in broker.users.roles


def _has_template(broker: "Broker", message: m.TemplateSet) -> bool:
    return broker.catalogue.templates.get(message.pattern) is not None


def _has_subscription(broker: "Broker", message: m.Subscribe) -> bool:
    return message.subscription in broker.catalogue.topics.subscriptions


def _has_topic(broker: "Broker", message: m.TopicSet) -> bool:
    return message.topic in broker.catalogue.topics.rows


def _has_cursor(broker: "Broker", message: m.CursorCommit) -> bool:
    return message.cursor in broker.context.history.cursors


def _row(kind: type[Kind], growth: Growth, exists: Callable[["Broker", Kind], bool]) -> _Row:
    return kind, (growth, exists)


# For requests on an object that may already exist: the growth if it exists, and a function that
# checks whether it exists.
_KNOWN = dict(
    [
        _row(m.ProducerOpen, Growth.NOTHING, _has_producer),
        _row(m.QueueCreate, Growth.NOTHING, _has_queue),
        _row(m.LinkCreate, Growth.NOTHING, _has_link),
        _row(m.LinkAllow, Growth.OPERATES, _is_allowed),
        _row(m.TemplateSet, Growth.OPERATES, _has_template),
        _row(m.Subscribe, Growth.NOTHING, _has_subscription),
        _row(m.TopicSet, Growth.OPERATES, _has_topic),
        _row(m.CursorCommit, Growth.NOTHING, _has_cursor),
        _row(m.GrantCreate, Growth.OPERATES, _has_user),
    ]
)


def check(broker: "Broker", message: Arrived) -> None:
    """Reserves the room that *message*, one of :data:`GROWING`, may need.

    Raises:
        RequestError: STORE_FULL.
    """
    assert isinstance(message, tuple), message
    kind, context = type(message), broker.context
    size = 2 * len(pack(list(message))) + ROWS_BYTES
    growth = GROWTH[kind]
    try:
        context.take_room(size, is_operators=growth is Growth.OPERATES)
    except RequestError:
        if kind not in _KNOWN:
            raise
        known, exists = _KNOWN[kind]
        if not exists(broker, message):
            raise
        if known is Growth.OPERATES:
            context.take_room(size, is_operators=True)
