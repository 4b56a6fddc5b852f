"""What operators ask of a queue manager, as in PROTOCOL.md: of queues, links, jobs, all of it."""
# ruff: noqa: RUF012 - these defaults are the messages' own: nobody changes what a message holds

from typing import Any, NamedTuple

__all__ = [
    "AsideDrop",
    "AsideList",
    "AsideRetry",
    "ConnectionClose",
    "ConnectionList",
    "GroupAlter",
    "GroupList",
    "GroupShow",
    "JobCancel",
    "JobList",
    "JobShow",
    "LinkAllow",
    "LinkAlter",
    "LinkCreate",
    "LinkDelete",
    "LinkDisallow",
    "LinkList",
    "LinkShow",
    "LinkStart",
    "LinkStop",
    "QueueAlter",
    "QueueCreate",
    "QueueDelete",
    "QueueList",
    "QueueMove",
    "QueuePurge",
    "QueueShow",
    "Snapshot",
    "Status",
    "TemplateDelete",
    "TemplateList",
    "TemplateSet",
]


class QueueCreate(NamedTuple):
    """Defines a queue: local, or remote where the name is QUEUE@MANAGER. OK value: its row."""

    request_id: int
    queue: str
    attributes: dict[str, Any] = {}


class QueueDelete(NamedTuple):
    """Deletes a queue; with purge also one that holds messages. OK value: {messages}."""

    request_id: int
    queue: str
    purge: bool = False


class QueueList(NamedTuple):
    """Lists queues in order of name, after a name. OK value: {queues, next}."""

    request_id: int
    after: str = ""
    limit: int = 1000


class QueueShow(NamedTuple):
    """Shows a queue. OK value: its row with attributes, counters, consumers and origins.

    origins_after: the page of the table of origins begins behind this one.
    """

    request_id: int
    queue: str
    origins_after: str = ""


class QueuePurge(NamedTuple):
    """Removes what is on a queue now and not leased. OK value: {messages}, when it is done.

    where: a selector of what is removed.
    """

    request_id: int
    queue: str
    where: str = ""
    messages_max: int = 0


class QueueAlter(NamedTuple):
    """Changes attributes of a queue, for good. OK value: its row, and what is other than before.

    attributes: those to change; nil stands for the default.
    """

    request_id: int
    queue: str
    attributes: dict[str, Any] = {}


class LinkCreate(NamedTuple):
    """Defines a link to another queue manager. OK value: its row."""

    request_id: int
    link: str
    attributes: dict[str, Any] = {}


class LinkDelete(NamedTuple):
    """Deletes a link; with purge also one with messages waiting. OK value: {messages}."""

    request_id: int
    link: str
    purge: bool = False


class LinkList(NamedTuple):
    """Lists links. OK value: {links}."""

    request_id: int


class LinkShow(NamedTuple):
    """Shows a link. OK value: its row."""

    request_id: int
    link: str


class LinkStart(NamedTuple):
    """Starts a stopped or refused link. OK value: its row.

    accept: the peer is taken as it is now, and all that is held here goes to it as a new stream.
    """

    request_id: int
    link: str
    accept: bool = False


class LinkStop(NamedTuple):
    """Stops a link, over restarts too. OK value: its row."""

    request_id: int
    link: str


class LinkAlter(NamedTuple):
    """Gives a link other addresses, for good. OK value: its row, and what is other than before."""

    request_id: int
    link: str
    attributes: dict[str, Any] = {}


class LinkAllow(NamedTuple):
    """Lets a queue manager open links to this one. OK value: its row.

    store_id: the only store accepted under that name; empty: the one pinned already, or the first
    that comes.
    """

    request_id: int
    manager: str
    store_id: bytes = b""


class LinkDisallow(NamedTuple):
    """Ends that a queue manager may open links to this one. OK value: {connections} closed."""

    request_id: int
    manager: str


class Status(NamedTuple):
    """Asks how the queue manager is. OK value: a map."""

    request_id: int


class Snapshot(NamedTuple):
    """Writes a snapshot of one turn to a new directory of the daemon's host. OK: the manifest.

    directory: an absolute path, or a URL.
    rate_bytes: the most to write in a second; 0 = as configured.
    """

    request_id: int
    directory: str
    rate_bytes: int = 0


class QueueMove(NamedTuple):
    """Moves or copies what is on a queue now and not leased, as a job. OK value: its row.

    A group of which some is leased or delayed stays.

    target: empty for dead letters that go back, each to the queue it comes from.
    messages_max, rate: how many in all, and in a second; 0 = any.
    retries_max: dead letters that went back so often already stay. With a target dead letters go
    back, too, if it is above 0; else they stay dead letters.
    """

    request_id: int
    queue: str
    target: str
    where: str = ""
    messages_max: int = 0
    rate: int = 0
    copy: bool = False
    retries_max: int = 3


class JobList(NamedTuple):
    """Lists jobs, those that ended within the hour too. OK value: {jobs}."""

    request_id: int


class JobShow(NamedTuple):
    """Shows a job. OK value: its row."""

    request_id: int
    job: int


class JobCancel(NamedTuple):
    """Ends a job where it stands. OK value: its row."""

    request_id: int
    job: int


class AsideList(NamedTuple):
    """Lists what is set aside, in order of number, after a number. OK value: {items, next}."""

    request_id: int
    after: int = 0
    limit: int = 1000


class AsideRetry(NamedTuple):
    """Has the work of an item done again. OK value: its row, and when: {retried}."""

    request_id: int
    number: int


class AsideDrop(NamedTuple):
    """Deletes an item with the row or the job that it holds. OK value: its row."""

    request_id: int
    number: int


class ConnectionList(NamedTuple):
    """Lists open connections in order of number, after a number. OK value: {connections, next}."""

    request_id: int
    after: int = 0
    limit: int = 1000


class ConnectionClose(NamedTuple):
    """Closes another connection. OK value: its row."""

    request_id: int
    connection: int


class TemplateSet(NamedTuple):
    """Defines a template: what queues have whose names fit a pattern. OK value: its row.

    attributes: all of them, as of a local queue; nil, or not named: the template says nothing.
    """

    request_id: int
    pattern: str
    attributes: dict[str, Any] = {}


class TemplateDelete(NamedTuple):
    """Deletes a template. OK value: {pattern, queues}."""

    request_id: int
    pattern: str


class TemplateList(NamedTuple):
    """Lists templates in order of their patterns. OK value: {templates}."""

    request_id: int


class GroupList(NamedTuple):
    """Lists the groups of a queue in order of their ids, after one. OK value: {groups, next}.

    incomplete: those only of which something is missing, or has not come yet.
    """

    request_id: int
    queue: str
    after: bytes = b""
    limit: int = 1000
    incomplete: bool = False


class GroupShow(NamedTuple):
    """Shows a group: its row, its members from a number on, and what is missing between them."""

    request_id: int
    queue: str
    group_id: bytes
    number: int = 1


class GroupAlter(NamedTuple):
    """Intervenes in a group. OK value: its row, as it is then, and whether that was *changed*.

    action: pause, resume, skip (to *number*, or what comes next), reassign (to *connection*, or to
    another one), close.
    """

    request_id: int
    queue: str
    group_id: bytes
    action: str
    number: int = 0
    connection: int = 0
