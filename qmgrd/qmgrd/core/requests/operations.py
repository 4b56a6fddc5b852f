"""The handler of each request of a client, an operator or a link."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias, TypeVar

from qmgr_protocol import messages as m
from qmgrd.core.requests.aside import AsideAdmin
from qmgrd.core.requests.groups import GroupAdmin
from qmgrd.core.requests.history import HistoryAdmin
from qmgrd.core.requests.jobs import JobAdmin
from qmgrd.core.requests.links import LinkAdmin
from qmgrd.core.requests.logins import LoginAdmin
from qmgrd.core.requests.services import Services
from qmgrd.core.requests.templates import TemplateAdmin
from qmgrd.core.requests.topics import TopicAdmin
from qmgrd.core.requests.users import UserAdmin
from qmgrd.core.sessions.request_part import Arrived, SettlePart, UnitPutPart
from qmgrd.core.sessions.session import Session

Kind = TypeVar("Kind", bound=m.Request | m.Piece | SettlePart | UnitPutPart)
_Arrived = TypeVar("_Arrived", bound=Arrived)
# Any stands for the message type of each row, because the type differs from row to row.
_Row: TypeAlias = tuple[type[object], Callable[[Session, Any], None]]


class Handlers(Protocol):
    """The table of handlers, by kind of request."""

    def __getitem__(self, kind: type[_Arrived], /) -> Callable[[Session, _Arrived], None]:
        """Returns the handler of *kind*."""


def row(kind: type[Kind], handler: Callable[[Session, Kind], None]) -> _Row:
    """Returns the table row for *kind*. Type checkers verify that *handler* accepts *kind*."""
    return kind, handler


def operations(parts: Services) -> Handlers:
    """Returns the table of handlers, by kind of request."""
    return dict(_rows(parts))


def _rows(parts: Services) -> Iterator[_Row]:
    yield from _of_messages(parts)
    yield from _of_queues(parts)
    yield from _of_groups(
        GroupAdmin(parts.context, parts.catalogue, parts.dead_letters, parts.secret)
    )
    yield from _of_topics(parts)
    yield from _of_history(HistoryAdmin(parts.context))
    yield from _of_links(parts)
    yield from _of_operators(parts)
    yield from _of_users(
        UserAdmin(
            parts.context,
            parts.catalogue,
            parts.users,
            parts.streams,
            parts.connections,
            parts.guard,
        )
    )
    yield from _of_logins(LoginAdmin(parts.context))


def _of_messages(parts: Services) -> Iterator[_Row]:
    delivery, streams, units = parts.delivery, parts.streams, parts.units
    yield row(m.ProducerOpen, streams.open_producer)
    yield row(m.Put, streams.put)
    yield row(m.Piece, streams.piece)
    yield row(m.UnitBegin, units.begin)
    yield row(m.UnitPut, units.put)
    yield row(UnitPutPart, units.put_part)
    yield row(m.UnitCommit, streams.commit)
    yield row(m.UnitBackout, units.backout)
    yield row(m.Get, delivery.get)
    yield row(m.Consume, delivery.consume)
    yield row(m.Credit, delivery.credit)
    yield row(m.Cancel, delivery.cancel)
    yield row(m.ReaderClose, delivery.reader_close)
    yield row(m.Settle, parts.settlements.settle)
    yield row(SettlePart, parts.settlements.settle_part)
    yield row(m.Browse, parts.admin.browse)


def _of_queues(parts: Services) -> Iterator[_Row]:
    admin = parts.admin
    jobs = JobAdmin(parts.context, parts.catalogue, parts.jobs)
    templates = TemplateAdmin(parts.context, parts.catalogue, parts.template_pass)
    yield row(m.QueueCreate, admin.queue_create)
    yield row(m.QueueAlter, admin.queue_alter)
    yield row(m.QueueDelete, admin.queue_delete)
    yield row(m.QueueList, admin.queue_list)
    yield row(m.QueueShow, admin.queue_show)
    yield row(m.QueuePurge, jobs.queue_purge)
    yield row(m.QueueMove, jobs.queue_move)
    yield row(m.JobList, jobs.job_list)
    yield row(m.JobShow, jobs.job_show)
    yield row(m.JobCancel, jobs.job_cancel)
    yield row(m.TemplateSet, templates.template_set)
    yield row(m.TemplateDelete, templates.template_delete)
    yield row(m.TemplateList, templates.template_list)


def _of_groups(admin: GroupAdmin) -> Iterator[_Row]:
    yield row(m.GroupNew, admin.group_new)
    yield row(m.GroupList, admin.group_list)
    yield row(m.GroupShow, admin.group_show)
    yield row(m.GroupAlter, admin.group_alter)


def _of_topics(parts: Services) -> Iterator[_Row]:
    topics = TopicAdmin(parts.context, parts.catalogue, parts.jobs, parts.subscriptions)
    yield row(m.Subscribe, topics.subscribe)
    yield row(m.Unsubscribe, topics.unsubscribe)
    yield row(m.SubscriptionList, topics.subscription_list)
    yield row(m.SubscriptionHealthy, topics.subscription_healthy)
    yield row(m.TopicSet, topics.topic_set)
    yield row(m.TopicDelete, topics.topic_delete)
    yield row(m.TopicList, topics.topic_list)
    yield row(m.TopicShow, topics.topic_show)
    yield row(m.TopicLacks, topics.topic_lacks)
    yield row(m.RepublishList, topics.republish_list)
    yield row(m.Republish, topics.republish)


def _of_history(admin: HistoryAdmin) -> Iterator[_Row]:
    yield row(m.HistoryRead, admin.history_read)
    yield row(m.HistoryShow, admin.history_show)
    yield row(m.CursorCommit, admin.cursor_commit)
    yield row(m.CursorDelete, admin.cursor_delete)


def _of_links(parts: Services) -> Iterator[_Row]:
    links = parts.streams.links
    admin = LinkAdmin(parts.context, parts.catalogue, parts.jobs, links)
    yield row(m.LinkOpen, links.open)
    yield row(m.CommitAsk, links.ask_commit)
    yield row(m.LinkFetch, admin.link_fetch)
    yield row(m.LinkCreate, admin.link_create)
    yield row(m.LinkAlter, admin.link_alter)
    yield row(m.LinkDelete, admin.link_delete)
    yield row(m.LinkList, admin.link_list)
    yield row(m.LinkShow, admin.link_show)
    yield row(m.LinkStart, admin.link_start)
    yield row(m.LinkStop, admin.link_stop)
    yield row(m.LinkAllow, admin.link_allow)
    yield row(m.LinkDisallow, admin.link_disallow)


def _of_operators(parts: Services) -> Iterator[_Row]:
    admin, aside, connections = (parts.admin, AsideAdmin(parts), parts.connections)
    yield row(m.Status, admin.status)
    yield row(m.Snapshot, admin.snapshot)
    yield row(m.SwitchOver, admin.switch_over)
    yield row(m.ConnectionList, connections.connection_list)
    yield row(m.ConnectionClose, connections.connection_close)
    yield row(m.AsideList, aside.aside_list)
    yield row(m.AsideRetry, aside.aside_retry)
    yield row(m.AsideDrop, aside.aside_drop)


def _of_users(admin: UserAdmin) -> Iterator[_Row]:
    yield row(m.UserCreate, admin.user_create)
    yield row(m.UserAlter, admin.user_alter)
    yield row(m.UserDelete, admin.user_delete)
    yield row(m.UserList, admin.user_list)
    yield row(m.UserShow, admin.user_show)
    yield row(m.RoleCreate, admin.role_create)
    yield row(m.RoleDelete, admin.role_delete)
    yield row(m.RoleList, admin.role_list)
    yield row(m.RoleShow, admin.role_show)
    yield row(m.GrantCreate, admin.grant_create)
    yield row(m.GrantDelete, admin.grant_delete)
    yield row(m.AccessExplain, admin.access_explain)


def _of_logins(admin: LoginAdmin) -> Iterator[_Row]:
    yield row(m.AccessRules, admin.access_rules)
    yield row(m.AccessTest, admin.access_test)
