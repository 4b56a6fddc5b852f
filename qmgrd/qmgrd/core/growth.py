"""What each operation may add to the store. No operation without an entry: a test holds the table
to that. The one place that refuses what would grow a full store is :func:`check`, before the
operation's noun sees it.

What exists already is only opened again, whatever the store has room for: so applications that
declare their queue, or resume their producer, can go on and make room. Operations that store
message by message ask for room themselves, so that ids stay in step.
"""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import RequestError
from qmgrd.core.sessions.settle_part import SettlePart

if TYPE_CHECKING:
    from qmgrd.core.broker import Broker

ROWS_BYTES = 1024  # of what an operation adds, in addition to twice its own size


class Growth(Enum):
    """What an operation may do to the store."""

    NOTHING = "nothing"  # It reads or removes, or writes a row again at its size.
    OPERATES = "operates"  # It adds a row, or makes one longer, that is needed to make room.
    ADDS = "adds"  # It adds rows.
    ITSELF = "itself"  # Its noun asks for room.


GROWTH: dict[type[Any], Growth] = {
    m.Cancel: Growth.NOTHING,
    m.ProducerOpen: Growth.OPERATES,  # Units of work that only get need one to commit.
    m.Put: Growth.ITSELF,
    m.Get: Growth.NOTHING,
    m.Consume: Growth.NOTHING,
    m.Credit: Growth.NOTHING,
    m.Settle: Growth.NOTHING,
    SettlePart: Growth.NOTHING,
    m.UnitBegin: Growth.NOTHING,
    m.UnitPut: Growth.ITSELF,
    m.UnitCommit: Growth.ITSELF,
    m.UnitBackout: Growth.NOTHING,
    m.GroupNew: Growth.NOTHING,
    m.ReaderClose: Growth.NOTHING,
    m.GroupList: Growth.NOTHING,
    m.GroupShow: Growth.NOTHING,
    m.GroupAlter: Growth.OPERATES,
    m.Browse: Growth.NOTHING,
    m.QueueCreate: Growth.ADDS,
    m.QueueAlter: Growth.OPERATES,
    m.QueueDelete: Growth.OPERATES,
    m.QueueList: Growth.NOTHING,
    m.QueueShow: Growth.NOTHING,
    m.QueuePurge: Growth.OPERATES,
    m.QueueMove: Growth.OPERATES,
    m.AsideList: Growth.NOTHING,
    m.AsideRetry: Growth.NOTHING,
    m.AsideDrop: Growth.NOTHING,  # It removes an item for the job that it may start.
    m.JobList: Growth.NOTHING,
    m.JobShow: Growth.NOTHING,
    m.JobCancel: Growth.NOTHING,
    m.LinkOpen: Growth.ITSELF,  # once it knows that the peer may know whether its stream exists
    m.CommitAsk: Growth.NOTHING,
    m.LinkFetch: Growth.NOTHING,
    m.LinkCreate: Growth.ADDS,
    m.LinkAlter: Growth.OPERATES,
    m.LinkDelete: Growth.OPERATES,
    m.LinkList: Growth.NOTHING,
    m.LinkShow: Growth.NOTHING,
    m.LinkStart: Growth.NOTHING,
    m.LinkStop: Growth.NOTHING,
    m.LinkAllow: Growth.ADDS,
    m.LinkDisallow: Growth.NOTHING,
    m.TemplateSet: Growth.ADDS,
    m.TemplateDelete: Growth.NOTHING,
    m.TemplateList: Growth.NOTHING,
    m.Subscribe: Growth.ADDS,
    m.Unsubscribe: Growth.OPERATES,
    m.SubscriptionList: Growth.NOTHING,
    m.SubscriptionHealthy: Growth.OPERATES,
    m.TopicSet: Growth.ADDS,
    m.TopicDelete: Growth.NOTHING,
    m.TopicList: Growth.NOTHING,
    m.TopicShow: Growth.NOTHING,
    m.TopicLacks: Growth.NOTHING,
    m.RepublishList: Growth.NOTHING,
    m.Republish: Growth.OPERATES,
    m.HistoryRead: Growth.NOTHING,
    m.HistoryShow: Growth.NOTHING,
    m.CursorCommit: Growth.ADDS,
    m.CursorDelete: Growth.NOTHING,
    m.Status: Growth.NOTHING,
    m.Snapshot: Growth.NOTHING,
    m.ConnectionList: Growth.NOTHING,
    m.ConnectionClose: Growth.NOTHING,
}

GROWING = frozenset(
    kind for kind, growth in GROWTH.items() if growth in (Growth.ADDS, Growth.OPERATES)
)

_Exists = Callable[["Broker", Any], bool]


def _has_producer(broker: "Broker", message: m.ProducerOpen) -> bool:
    return broker.streams.knows(message.producer_id)


def _has_queue(broker: "Broker", message: m.QueueCreate) -> bool:
    return message.queue in broker.catalogue.queues


def _has_link(broker: "Broker", message: m.LinkCreate) -> bool:
    return message.link in broker.catalogue.links


def _is_allowed(broker: "Broker", message: m.LinkAllow) -> bool:
    return broker.context.peers.is_allowed(message.manager)


def _has_template(broker: "Broker", message: m.TemplateSet) -> bool:
    return broker.catalogue.templates.get(message.pattern) is not None


def _has_subscription(broker: "Broker", message: m.Subscribe) -> bool:
    return message.subscription in broker.catalogue.topics.subscriptions


def _has_topic(broker: "Broker", message: m.TopicSet) -> bool:
    return message.topic in broker.catalogue.topics.rows


def _has_cursor(broker: "Broker", message: m.CursorCommit) -> bool:
    return message.cursor in broker.context.journal.cursors


# What an operation does to what exists already.
_KNOWN: dict[type[Any], tuple[Growth, _Exists]] = {
    m.ProducerOpen: (Growth.NOTHING, _has_producer),
    m.QueueCreate: (Growth.NOTHING, _has_queue),
    m.LinkCreate: (Growth.NOTHING, _has_link),
    m.LinkAllow: (Growth.OPERATES, _is_allowed),
    m.TemplateSet: (Growth.OPERATES, _has_template),
    m.Subscribe: (Growth.NOTHING, _has_subscription),
    m.TopicSet: (Growth.OPERATES, _has_topic),
    m.CursorCommit: (Growth.NOTHING, _has_cursor),
}


def check(broker: "Broker", message: Any) -> None:
    """Take the room that *message*, one of :data:`GROWING`, may need.

    Raises:
        RequestError: STORE_FULL.
    """
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
