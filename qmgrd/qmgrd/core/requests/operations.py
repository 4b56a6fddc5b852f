"""Which noun answers which message of a client, an operator or a link."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qmgr_protocol import messages as m
from qmgrd.core.requests.aside import AsideAdmin
from qmgrd.core.requests.groups import GroupAdmin
from qmgrd.core.requests.history import HistoryAdmin
from qmgrd.core.requests.jobs import JobAdmin
from qmgrd.core.requests.links import LinkAdmin
from qmgrd.core.requests.set_aside import Parts
from qmgrd.core.requests.templates import TemplateAdmin
from qmgrd.core.requests.topics import TopicAdmin
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.settle_part import SettlePart

if TYPE_CHECKING:
    from qmgrd.core.broker import Broker


def operations(broker: "Broker") -> dict[type[Any], Callable[[Session, Any], None]]:
    """Return what is done with each message, but for those that answer a link."""
    context, catalogue = broker.context, broker.catalogue
    admin, delivery, streams = broker.admin, broker.delivery, broker.streams
    templates = TemplateAdmin(context, catalogue, broker.template_pass)
    jobs = JobAdmin(context, catalogue, broker.jobs)
    aside = AsideAdmin(Parts(context, catalogue, broker.jobs))
    groups = GroupAdmin(context, catalogue, broker.dead_letters)
    return {
        m.Put: streams.put,
        m.Settle: broker.settlements.settle,
        SettlePart: broker.settlements.settle_part,
        m.UnitBegin: broker.units.begin,
        m.UnitPut: broker.units.put,
        m.UnitCommit: streams.commit,
        m.UnitBackout: broker.units.backout,
        m.Credit: delivery.credit,
        m.Consume: delivery.consume,
        m.Get: delivery.get,
        m.Cancel: delivery.cancel,
        m.ProducerOpen: streams.open_producer,
        m.Browse: admin.browse,
        m.QueueCreate: admin.queue_create,
        m.QueueAlter: admin.queue_alter,
        m.QueueDelete: admin.queue_delete,
        m.QueueList: admin.queue_list,
        m.QueueShow: admin.queue_show,
        m.QueuePurge: jobs.queue_purge,
        m.QueueMove: jobs.queue_move,
        m.GroupNew: groups.group_new,
        m.GroupList: groups.group_list,
        m.GroupShow: groups.group_show,
        m.GroupAlter: groups.group_alter,
        m.ReaderClose: delivery.reader_close,
        m.JobList: jobs.job_list,
        m.JobShow: jobs.job_show,
        m.JobCancel: jobs.job_cancel,
        m.TemplateSet: templates.template_set,
        m.TemplateDelete: templates.template_delete,
        m.TemplateList: templates.template_list,
        m.Status: admin.status,
        m.AsideList: aside.aside_list,
        m.AsideRetry: aside.aside_retry,
        m.AsideDrop: aside.aside_drop,
        m.Snapshot: admin.snapshot,
        m.ConnectionList: broker.connections.connection_list,
        m.ConnectionClose: broker.connections.connection_close,
        **_of_topics(TopicAdmin(context, catalogue, broker.jobs, broker.subscriptions)),
        **_of_history(HistoryAdmin(context)),
        **_of_links(broker),
    }


def _of_links(broker: "Broker") -> dict[type[Any], Callable[[Session, Any], None]]:
    links = broker.streams.links
    admin = LinkAdmin(broker.context, broker.catalogue, broker.jobs, links)
    return {
        m.LinkOpen: links.open,
        m.CommitAsk: links.ask_commit,
        m.LinkFetch: admin.link_fetch,
        m.LinkCreate: admin.link_create,
        m.LinkAlter: admin.link_alter,
        m.LinkDelete: admin.link_delete,
        m.LinkList: admin.link_list,
        m.LinkShow: admin.link_show,
        m.LinkStart: admin.link_start,
        m.LinkStop: admin.link_stop,
        m.LinkAllow: admin.link_allow,
        m.LinkDisallow: admin.link_disallow,
    }


def _of_history(admin: HistoryAdmin) -> dict[type[Any], Callable[[Session, Any], None]]:
    return {
        m.HistoryRead: admin.history_read,
        m.HistoryShow: admin.history_show,
        m.CursorCommit: admin.cursor_commit,
        m.CursorDelete: admin.cursor_delete,
    }


def _of_topics(topics: TopicAdmin) -> dict[type[Any], Callable[[Session, Any], None]]:
    return {
        m.Subscribe: topics.subscribe,
        m.Unsubscribe: topics.unsubscribe,
        m.SubscriptionList: topics.subscription_list,
        m.SubscriptionHealthy: topics.subscription_healthy,
        m.TopicSet: topics.topic_set,
        m.TopicDelete: topics.topic_delete,
        m.TopicList: topics.topic_list,
        m.TopicShow: topics.topic_show,
        m.TopicLacks: topics.topic_lacks,
        m.RepublishList: topics.republish_list,
        m.Republish: topics.republish,
    }
