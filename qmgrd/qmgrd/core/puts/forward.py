"""Forwards the publications of a proxy to the same topic at another queue manager.

Each publication is sent over the link once, like any message. Its note lists the queue managers
that it passed. The daemon does not send it back to any of them, so no publication travels in a
circle. A queue manager does not publish the same UID twice.
"""

from qmgr_protocol import record as records
from qmgr_protocol import topic as topics
from qmgr_protocol.errors import RequestError
from qmgrd.core.catalogue import route
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.puts.fan_out import Publication, is_selected
from qmgrd.core.queue import notes
from qmgrd.core.queue.dedup import UidVerdict
from qmgrd.core.queue.put import Prepared, append


def forward(
    context: Context, catalogue: Catalogue, subscription: Subscription, part: list[Publication]
) -> None:
    """Forwards *part* over the link of a proxy, except publications from that direction."""
    manager = subscription.manager
    if subscription.is_refused:
        why = "its owner may not subscribe"
        context.event("publication missed", len(part), subscription=subscription.name, why=why)
        return
    try:
        link = route.link_to(catalogue, manager)
    except RequestError:
        context.event(
            "publication missed", len(part), subscription=subscription.name, why="no link"
        )
        return
    for publication in part:
        if publication.arrival < subscription.first:
            continue
        if subscription.selector and not is_selected(context, subscription, publication):
            continue
        hops = _hops_of(context, publication)
        if manager in hops or link.name in hops or len(hops) >= notes.HOPS_MAX:
            continue
        queue, target = route.route_to(catalogue, topics.MARK + publication.entry.target, manager)
        note = notes.encode({"hops": hops}) if hops else b""
        entry, trailer = publication.entry, publication.trailer
        bound_for = target.encode()
        verdict = queue.origins.check_uid(context.tx, trailer, bound_for)
        if verdict is UidVerdict.DUPLICATE:
            continue
        record = entries.record(context.tx, entry)
        if not entries.is_sound(record):
            context.event("publication missed", subscription=subscription.name, why="damaged")
            continue
        prepared = Prepared(
            record,
            trailer,
            False,
            verdict,
            publication.front[records.PRIORITY_AT],
            entry.put_us,
            entry.expires_ms,
            entry.due_ms,
            bool(publication.front[records.FLAGS_AT] & records.FLAG_NOT_PERSISTENT),
            bound_for,
            note,
        )
        append(queue, context.tx, prepared, queue.next_arrival())
        context.mark_changed(queue)


def _hops_of(context: Context, publication: Publication) -> list[str]:
    """Returns the queue managers that a publication has passed, or [] if it was put here."""
    if not publication.entry.noted:
        return []
    came = notes.read(context.tx, keys.PUBLICATIONS_ID, publication.arrival).get("hops")
    return list(came) if notes.is_way(came) and came is not None else []
