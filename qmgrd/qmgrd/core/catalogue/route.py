"""Finds the link to another queue manager, and detects messages that travel in a circle.

A message from a link may be addressed to a queue of a third queue manager. It is forwarded over the
link to that queue manager, or over a link with a route to it, if that link allows ``transit``. The
note of the message lists the queue managers that the message has passed. If the message reaches one
of them again, or a seventeenth, it becomes a dead letter.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qmgr_protocol import messages as m
from qmgr_protocol import name as names
from qmgr_protocol import topic as topics
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import ANY_ROUTE
from qmgrd.core.catalogue import attributes
from qmgrd.core.catalogue.missing import unknown_link_error
from qmgrd.core.queue import notes
from qmgrd.core.queue.put_errors import queue_full_error
from qmgrd.core.queue.queue import Queue

if TYPE_CHECKING:
    from qmgrd.core.catalogue.catalogue import Catalogue
    from qmgrd.core.link.link import Link


def link_to(catalogue: "Catalogue", manager: str) -> "Link":
    """Returns the link for messages to *manager*: its own link, or one with a route.

    Raises:
        RequestError: LINK_UNKNOWN.
    """
    routes = catalogue.routes
    found = catalogue.links.get(manager) or routes.get(manager) or routes.get(ANY_ROUTE)
    if found is None:
        raise unknown_link_error(manager)
    return found


def route_to(catalogue: "Catalogue", target: str, manager: str) -> tuple[Queue, str]:
    """Returns the local queue for messages to *target* at *manager*, and the target for its link.

    Raises:
        RequestError: The codes of :func:`link_to`.
    """
    link = link_to(catalogue, manager)
    return link.queue, target if link.name == manager else f"{target}@{manager}"


def check_proxies(catalogue: "Catalogue", topic: str) -> None:
    """Checks that each link that carries publications to *topic* has room for another one.

    Raises:
        RequestError: QUEUE_FULL or LINK_UNKNOWN.
    """
    for found in catalogue.topics.proxies_of(topic):
        queue = link_to(catalogue, found.manager).queue
        if not queue.has_room(1, 0):
            raise queue_full_error(queue)


def arrival(catalogue: "Catalogue", name: str, own: str) -> tuple[Queue, str]:
    """Returns the local queue for a link's message to *name*, and the target for the next link.

    Args:
        catalogue: The definitions of this queue manager.
        name: A local queue, or QUEUE@MANAGER of another queue manager.
        own: The name of this queue manager.

    Raises:
        RequestError: The codes of :meth:`Catalogue.destination`, or QUEUE_IS_REMOTE if the message
            may not be forwarded.
    """
    is_topic = topics.is_topic(name)
    target, manager = name.partition("@")[::2] if is_topic else names.split(name)
    if not target or manager in ("", own):
        queue, further = catalogue.destination(target or name)
        if is_topic:
            return queue, further
        if further:
            raise RequestError(ErrorCode.QUEUE_IS_REMOTE, f"{name} is a remote queue here")
        return queue, ""
    link = link_to(catalogue, manager)
    if not link.row.get("transit", False):
        raise RequestError(
            ErrorCode.QUEUE_IS_REMOTE,
            f"{name} is a remote queue here, and messages from links are not forwarded over link "
            f"{link.name}; set its attribute transit to forward them",
        )
    if link.queue.bounds.put_inhibit:
        raise attributes.put_inhibited_error(link.queue.name)
    return route_to(catalogue, target, manager)


def reached(name: str, own: str) -> str:
    """Returns the name by which the queue manager *own* checks a link's put to *name*.

    A queue of *own* counts without the queue manager. A topic is the same at all queue managers.
    """
    target, _, manager = name.partition("@")
    return (target or name) if topics.is_topic(name) or manager == own else name


def passed(name: str, own: str) -> str:
    """Returns the transmission queue over which a publication to *name* only passes *own*, or "".

    A topic has no queue manager, so its name does not show the right to pass.
    """
    manager = name.partition("@")[2] if topics.is_topic(name) else ""
    return f"@{manager}" if manager not in ("", own) else ""


def may_forward(name: str, own: str) -> bool:
    """Returns whether the queue manager *own* may forward a message to *name*.

    A message may be forwarded if *name* belongs to another queue manager or is a topic.
    """
    if topics.is_topic(name):
        return True
    target, _, manager = name.partition("@")
    return bool(target) and manager not in ("", own)


def forwarded(put: m.Put, peer: str, own: str) -> Iterator[tuple[m.Put, RequestError | None]]:
    """Yields runs of *put* that may be forwarded, and each record that may not be, with the reason.

    Args:
        put: The put that arrived over the link of *peer*, with decoded notes.
        peer: The queue manager that sent *put*.
        own: The name of this queue manager.
    """
    extras: dict[int, dict[str, Any]] = dict(put.extras)
    first, of_run = 0, list[list[Any]]()
    for index in range(len(put.records)):
        extra = extras.get(index, {})
        note = extra.get(m.EXTRA_NOTE, {})
        hops = note.get("hops") or [peer]
        if not notes.is_way(hops) or own in hops or len(hops) >= notes.HOPS_MAX:
            if index > first:
                yield _run(put, first, index, of_run), None
            yield (
                _run(put, index, index + 1, [[0, extra]] if extra else []),
                _loop_error(put, hops, own),
            )
            first, of_run = index + 1, []
            continue
        note_here = note | {"hops": [*hops, own]}
        of_run.append([index - first, extra | {m.EXTRA_NOTE: note_here}])
    if len(put.records) > first:
        yield _run(put, first, len(put.records), of_run), None


def arrived(put: m.Put) -> m.Put:
    """Returns *put* for a queue of this queue manager, without the list of the managers it
    passed.
    """
    extras = [[index, _arrived(extra)] for index, extra in put.extras]
    return put._replace(extras=extras) if extras else put


def _arrived(extra: dict[str, Any]) -> dict[str, Any]:
    note = dict(extra.get(m.EXTRA_NOTE, {}))
    if "hops" not in note:
        return extra
    came = note.pop("hops")
    return extra | {m.EXTRA_NOTE: note | {"came": came}}


def _run(put: m.Put, first: int, stop: int, extras: list[list[Any]]) -> m.Put:
    records = put.records[first:stop]
    return put._replace(first_id=put.first_id + first, records=records, extras=extras)


def _loop_error(put: m.Put, hops: Any, own: str) -> RequestError:
    if not notes.is_way(hops):
        text = f"a message for {put.queue} has no valid list of the queue managers that it passed"
        return RequestError(ErrorCode.ROUTE_LOOP, text)
    route_to = " -> ".join(str(hop) for hop in [*hops, own])
    why = "was already here" if own in hops else f"came through {len(hops)} queue managers"
    return RequestError(ErrorCode.ROUTE_LOOP, f"a message for {put.queue} {why}: {route_to}")


def remotes_of(catalogue: "Catalogue", manager: str) -> Iterator[str]:
    """Yields the names that use the link to *manager*: remote queues and proxies."""
    for bound_for in catalogue.remotes.referred():
        if link_to(catalogue, bound_for).name == manager:
            yield from catalogue.remotes.of(bound_for)
