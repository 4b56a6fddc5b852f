"""Which right an operation needs. No operation without an entry: a test holds the table to that."""

from enum import Enum
from typing import Any

from qmgr_protocol import messages as m
from qmgrd.core.sessions.settle_part import SettlePart


class Right(Enum):
    """What one may be allowed to do."""

    CONNECT = "connect"  # whatever every connection may
    PUT = "put"
    GET = "get"
    SUBSCRIBE = "subscribe"
    BROWSE = "browse"
    SHOW = "show"
    ADMIN = "admin"
    LINK = "link"


RIGHTS: dict[type[Any], Right] = {
    m.Cancel: Right.CONNECT,
    m.ProducerOpen: Right.CONNECT,
    m.Put: Right.PUT,
    m.Get: Right.GET,
    m.Consume: Right.GET,
    m.Credit: Right.CONNECT,
    m.Settle: Right.GET,
    SettlePart: Right.GET,
    m.UnitBegin: Right.CONNECT,
    m.UnitPut: Right.PUT,
    m.UnitCommit: Right.CONNECT,
    m.UnitBackout: Right.CONNECT,
    m.GroupNew: Right.PUT,
    m.ReaderClose: Right.CONNECT,
    m.GroupList: Right.SHOW,
    m.GroupShow: Right.SHOW,
    m.GroupAlter: Right.ADMIN,
    m.Browse: Right.BROWSE,
    m.QueueCreate: Right.ADMIN,
    m.QueueAlter: Right.ADMIN,
    m.QueueDelete: Right.ADMIN,
    m.QueueList: Right.SHOW,
    m.QueueShow: Right.SHOW,
    m.QueuePurge: Right.ADMIN,
    m.QueueMove: Right.ADMIN,
    m.JobList: Right.SHOW,
    m.JobShow: Right.SHOW,
    m.JobCancel: Right.ADMIN,
    m.LinkOpen: Right.LINK,
    m.CommitAsk: Right.LINK,
    m.LinkFetch: Right.LINK,
    m.LinkCreate: Right.ADMIN,
    m.LinkAlter: Right.ADMIN,
    m.LinkDelete: Right.ADMIN,
    m.LinkList: Right.SHOW,
    m.LinkShow: Right.SHOW,
    m.LinkStart: Right.ADMIN,
    m.LinkStop: Right.ADMIN,
    m.LinkAllow: Right.ADMIN,
    m.LinkDisallow: Right.ADMIN,
    m.TemplateSet: Right.ADMIN,
    m.TemplateDelete: Right.ADMIN,
    m.TemplateList: Right.SHOW,
    m.Subscribe: Right.SUBSCRIBE,
    m.Unsubscribe: Right.SUBSCRIBE,
    m.SubscriptionList: Right.SHOW,
    m.SubscriptionHealthy: Right.SUBSCRIBE,
    m.TopicSet: Right.ADMIN,
    m.TopicDelete: Right.ADMIN,
    m.TopicList: Right.SHOW,
    m.TopicShow: Right.SHOW,
    m.TopicLacks: Right.SHOW,
    m.RepublishList: Right.SHOW,
    m.Republish: Right.ADMIN,
    m.HistoryRead: Right.SHOW,
    m.HistoryShow: Right.SHOW,
    m.CursorCommit: Right.ADMIN,
    m.CursorDelete: Right.ADMIN,
    m.Status: Right.SHOW,
    m.Snapshot: Right.ADMIN,
    m.AsideList: Right.SHOW,
    m.AsideRetry: Right.ADMIN,
    m.AsideDrop: Right.ADMIN,
    m.ConnectionList: Right.SHOW,
    m.ConnectionClose: Right.ADMIN,
}


def allowed(kind: type[Any]) -> bool:
    """Return whether a peer may do what *kind* asks: all, until authentication exists.

    Raises:
        KeyError: an operation without a right is a bug.
    """
    return RIGHTS[kind] is not None
