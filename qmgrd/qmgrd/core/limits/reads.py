"""Requests that only read: which may have a long answer, and which die with their connection."""

from typing import Any

from qmgr_protocol import messages as m

_SHORT: frozenset[type[Any]] = frozenset(
    {m.Status, m.QueueShow, m.JobShow, m.LinkShow, m.HistoryShow}
)

# Their answers may be up to a frame long, so they wait while there is no room for that.
LONG: frozenset[type[Any]] = frozenset(
    {
        m.Browse,
        m.HistoryRead,
        m.QueueList,
        m.TemplateList,
        m.LinkList,
        m.JobList,
        m.GroupList,
        m.GroupShow,
        m.SubscriptionList,
        m.TopicList,
        m.TopicShow,
        m.TopicLacks,
        m.RepublishList,
        m.ConnectionList,
        m.AsideList,
    }
)

READS = LONG | _SHORT

# Nobody hears their answers once the connection is gone, and nothing else comes of them.
DROPPED = READS | {m.Get, m.Consume, m.Credit, m.Cancel, m.ReaderClose}
