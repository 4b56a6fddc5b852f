"""The queues and links that exist: their stored rows, and the objects made from these rows.

    ORDERS        a local queue
    FLIGHTS@NYC   a remote queue: puts on it go to FLIGHTS on queue manager NYC
    @NYC          the transmission queue of link NYC: created and deleted with the link
    SALES         an alias: another name for ORDERS, or for FLIGHTS@NYC
    B:late        a subscription (subscription.py)

A queue id is assigned once and never used again. The name of a deleted queue can be used again.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable
from typing import Any

from qmgr_protocol import name as names
from qmgr_protocol import topic as topic_names
from qmgr_protocol.amount import amount
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue import attributes, route, system
from qmgrd.core.catalogue.attribute import ALIAS_OF
from qmgrd.core.catalogue.definition import check_alias, check_new, check_same
from qmgrd.core.catalogue.missing import (
    get_from_proxy_error,
    put_to_subscription_error,
    unknown_queue_error,
    unknown_subscription_error,
    unknown_target_error,
)
from qmgrd.core.catalogue.name_index import NameIndex, manager_of, target_of
from qmgrd.core.catalogue.named import KINDS, Alias, ProxySubscription, Remote, named
from qmgrd.core.catalogue.near import LOOKED_AT_MAX
from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.catalogue.templates import Template, Templates
from qmgrd.core.catalogue.topics import Topics
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.link.link import Link
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.references import References


class Catalogue:
    """All definitions.

    Invariant: ``by_id`` contains the members of ``queues`` that store messages. ``names`` contains
        all names except subscriptions, in order. ``aliases`` contains the aliases, ``remotes`` the
        remote queues and proxies. No alias points to an alias.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queues: dict[str, Queue | Remote | Alias | ProxySubscription] = {}
        self.by_id: dict[int, Queue] = {}
        self.links: dict[str, Link] = {}
        self.routes: dict[str, Link] = {}  # links, by the target of their routes
        self.templates = Templates()
        self.topics = Topics(context)
        self.references = References()
        self.owned: Counter[str] = Counter()  # number of queues by the user who created them
        self._rows: dict[str, dict[str, Any]] = {}
        self.names: list[str] = []  # sorted
        self.aliases = NameIndex(target_of)
        self.remotes = NameIndex(manager_of)

    def local(self, name: str, *, gets: bool = True) -> Queue:
        """Returns the local or transmission queue *name*, or the target of the alias *name*.

        Args:
            gets: Whether the caller receives messages. An alias can have its own get inhibit.

        Raises:
            RequestError: NAME_INVALID, QUEUE_UNKNOWN, QUEUE_IS_REMOTE, GET_INHIBITED, or
                QUEUE_IS_SYSTEM for a get of audit records.
        """
        known = self.named(name)
        found = self._resolved(known)
        if isinstance(found, ProxySubscription):
            raise get_from_proxy_error(name, found.manager)
        if isinstance(found, Remote):
            raise RequestError(
                ErrorCode.QUEUE_IS_REMOTE,
                f"{found.name} is a remote queue: its messages are on "
                f"{route.link_to(self, found.manager).queue.name}; consume them at {found.manager}",
            )
        if gets:
            system.check_unlocked(found.name, "get messages from")
            if isinstance(known, Alias) and known.get_inhibit:
                raise attributes.get_inhibited_error(name)
        return found

    def named(self, name: str) -> Queue | Remote | Alias | ProxySubscription:
        """Returns the object named *name*. A system queue is created at its first use.

        Raises:
            RequestError: NAME_INVALID or QUEUE_UNKNOWN.
        """
        found = self.queues.get(name)
        if found is None:
            if name in system.ATTRIBUTES:
                return self.system(name)
            is_subscription = topic_names.is_subscription(name)
            if not is_subscription:
                names.split(name)
            known = self.queues if self._context.gives_hints else ()
            self._context.count_read(min(len(known), LOOKED_AT_MAX), 0)
            if is_subscription:
                raise unknown_subscription_error(name, known)
            raise unknown_queue_error(name, known)
        return found

    def find(self, name: str) -> Queue | Remote | ProxySubscription:
        """Returns the object named *name*, or the target if *name* is an alias.

        Raises:
            RequestError: NAME_INVALID or QUEUE_UNKNOWN.
        """
        return self._resolved(self.named(name))

    def _resolved(
        self, known: Queue | Remote | Alias | ProxySubscription
    ) -> Queue | Remote | ProxySubscription:
        """Returns *known*, or its target if *known* is an alias."""
        if not isinstance(known, Alias):
            return known
        if known.target not in self.queues and known.target not in system.ATTRIBUTES:
            raise unknown_target_error(known.name, known.target)
        found = self.named(known.target)
        assert not isinstance(found, Alias), f"{known.name} is an alias of alias {found.name}"
        return found

    def system(self, name: str) -> Queue:
        """Returns the system queue *name*, created at its first use regardless of limits.

        Args:
            name: A name from system.py.
        """
        if name not in self.queues:
            row: dict[str, Any] = {"kind": "publications", "queue_id": keys.PUBLICATIONS_ID}
            if name != system.PUBLICATIONS:
                row = {"kind": "local", "queue_id": self.next_queue_id()}
            self.store_queue(name, system.ATTRIBUTES[name] | row)
        found = self.queues[name]
        assert isinstance(found, Queue), name
        return found

    def destination(self, name: str) -> tuple[Queue, str]:
        """Returns the queue that stores a put to *name*, and the target for its link.

        For a publication the target is its topic. All messages of clients, units, links and jobs
        use this method. Messages of the daemon itself use :meth:`own_queue`.

        Raises:
            RequestError: The codes of :meth:`find`, QUEUE_IS_TRANSMISSION, QUEUE_IS_SUBSCRIPTION,
                QUEUE_IS_SYSTEM, PUT_INHIBITED or TOPIC_INVALID.
        """
        if topic_names.is_topic(name):
            return self._publications(name[1:])
        found = self.queues.get(name)
        if type(found) is not Queue:  # Most names refer to queues, for which one check is enough.
            found = self._open_to_puts(name)
        if isinstance(found, Remote):
            if found.target in system.ATTRIBUTES:
                raise system.put_to_system_queue_error(name, f"{found.target} of {found.manager}")
            queue, target = route.route_to(self, found.target, found.manager)
        elif (
            isinstance(found, ProxySubscription)
            or found.references is not None
            or found.is_publications
        ):
            raise put_to_subscription_error(name)
        elif found.is_transmission:
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION,
                f"{name} receives messages only from puts to remote queues such as QUEUE{name}",
            )
        elif found.name in system.ATTRIBUTES:
            raise system.put_to_system_queue_error(name, found.name)
        else:
            queue, target = found, ""
        if queue.bounds.put_inhibit:
            raise attributes.put_inhibited_error(queue.name)
        return queue, target

    def _open_to_puts(self, name: str) -> Queue | Remote | ProxySubscription:
        """Returns the destination of *name*, unless the alias or remote queue *name* is
        inhibited.
        """
        known = self.named(name)
        found = self._resolved(known)
        for each in (known, found):
            if isinstance(each, Remote | Alias) and each.put_inhibit:
                raise attributes.put_inhibited_error(each.name)
        return found

    def own_queue(self, name: str) -> Queue:
        """Returns the system queue *name* for a message of the daemon itself.

        Raises:
            RequestError: PUT_INHIBITED.
        """
        queue = self.system(name)
        if queue.bounds.put_inhibit:
            raise attributes.put_inhibited_error(name)
        return queue

    def _publications(self, topic: str) -> tuple[Queue, str]:
        """Returns the queue that stores publications to *topic*, and the topic."""
        self.topics.check_put(topic)
        route.check_proxies(self, topic)
        return self.own_queue(system.PUBLICATIONS), topic

    def storing_queue(self, name: str) -> Queue:
        """Returns the queue that stores puts on *name*. For a remote queue, it is the link's queue.

        Raises:
            RequestError: The codes of :meth:`find`.
        """
        if topic_names.is_topic(name):
            return self.system(system.PUBLICATIONS)
        found = self.find(name)
        return found if isinstance(found, Queue) else route.link_to(self, found.manager).queue

    def create_queue(
        self,
        name: str,
        given: dict[str, Any],
        owner: str = "",
        check_owner: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Defines a queue and returns its row. Repeating an identical definition has no effect.

        Args:
            name: The name of the queue.
            given: Its attributes.
            owner: The user who creates the queue, if any.
            check_owner: A function that raises RequestError if *owner* may not create a new queue.

        Raises:
            RequestError: NAME_INVALID, VALUE_INVALID, QUEUE_EXISTS if the queue exists with other
                attributes, LINK_UNKNOWN for a remote queue, QUEUES_EXHAUSTED, or the error of
                *check_owner*.
        """
        target, manager = names.split(name)
        if not target:
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION,
                f"{name} is created with the link to {manager}; create the link instead",
            )
        kind = "remote" if manager else "alias" if ALIAS_OF in given else "local"
        attributes.queue_attributes(name, given, kind)
        if name in system.ATTRIBUTES:
            self.system(name)
            given = system.ATTRIBUTES[name] | given
        if name in self.queues:
            check_same(name, self._rows[name], given)
            return self.show_queue(name)
        check_new(self, self._context.name, name, given, kind)
        check_owner()
        queue_id = 0 if kind in KINDS else self.next_queue_id()
        row = attributes.stored(given) | {"kind": kind, "queue_id": queue_id}
        self.store_queue(name, row | ({"owner": owner} if owner else {}))
        return self.show_queue(name)

    def check_room(self) -> None:
        """Raises QUEUES_EXHAUSTED if the maximum number of queues is reached."""
        limit = self._context.config.limits.queues_max
        count = len(self.names) - len(system.ATTRIBUTES.keys() & self.queues.keys())
        if count >= limit:
            raise RequestError(
                ErrorCode.QUEUES_EXHAUSTED, f"{amount(count, 'queue')} exist (the limit is {limit})"
            )

    def store_queue(self, name: str, row: dict[str, Any]) -> None:
        """Defines a queue with *row*."""
        self._write_queue(name, row)
        if row["kind"] not in KINDS:
            Counters().write(self._context.tx, row["queue_id"])
        self.add_queue(name, row, unclean=False)

    def _write_queue(self, name: str, row: dict[str, Any]) -> None:
        rows.put(self._context.tx, keys.SPACE_QUEUE + name.encode(), pack(row))
        self._context.wrote = True

    def add_queue(self, name: str, row: dict[str, Any], *, unclean: bool) -> None:
        """Adds the queue *name* with its stored *row*. If an error is raised, nothing has changed.

        Args:
            name: The name of the queue.
            row: The stored row.
            unclean: Whether the last run was killed. Older messages then count as possibly
                delivered.
        """
        if row["kind"] in KINDS:
            found: Queue | Remote | Alias | ProxySubscription = named(name, row)
        else:
            found = self._queue(name, row, unclean=unclean)
        if row["kind"] in ("proxy", "subscription"):
            self.topics.add(Subscription(name, row, found if isinstance(found, Queue) else None))
        else:
            insort(self.names, name)
            self.owned[row.get("owner", "")] += 1
        self._rows[name], self.queues[name] = row, found
        if isinstance(found, Queue):
            self.by_id[found.id] = found
            self._context.totals.count(found)
        else:
            self.aliases.add(found)
            self.remotes.add(found)

    def _queue(self, name: str, row: dict[str, Any], *, unclean: bool) -> Queue:
        queue_id, is_subscription = row["queue_id"], row["kind"] == "subscription"
        queue = Queue(
            queue_id,
            name,
            self._bounds(name, row),
            Counters.read(self._context.tx, queue_id, name),
            self._context.ids,
            self._context.schedule,
            is_transmission=row["kind"] in ("transmission", "publications"),
            unclean=unclean,
            references=self.references if is_subscription else None,
            history=self._context.history,
            origin=self._context.stamper.origin,
            unused_bodies=self._context.unused_bodies,
        )
        if row.get("owner"):
            queue.stored = self._context.totals.stored_by(row["owner"])
        return queue

    def _bounds(self, name: str, row: dict[str, Any]) -> Bounds:
        """Returns the bounds of the queue with *row*, and remembers its template."""
        if row["kind"] == "local" and name != system.AUDIT:
            self.templates.apply(name)
        return attributes.bounds(self._context.config, self._full(name, row))

    def _full(self, name: str, row: dict[str, Any]) -> dict[str, Any]:
        """Returns the *row* of a queue, completed by its template."""
        if name == system.AUDIT:
            config = self._context.config
            return row | system.audit_attributes(config.audit, config.store.map_bytes)
        found = self.templates.applied(name)
        return row if found is None else found.attributes | row

    def check_in_force(self, name: str, template: Template) -> None:
        """Raises VALUE_INVALID if *template* cannot be in force for the local queue *name*."""
        row = self._rows.get(name, {})
        if row.get("kind") == "local":
            attributes.check_in_force(name, row, template)

    def apply_attributes(self, queue: Queue) -> None:
        """Applies the current attributes and templates to a local queue."""
        before, after = queue.bounds, self._bounds(queue.name, self._rows[queue.name])
        waits = (after.group_incomplete_ms, after.group_retention_ms)
        if waits != (before.group_incomplete_ms, before.group_retention_ms):
            queue.groups.has_new_bounds = True
        queue.bounds = after

    def alter_queue(self, name: str, changes: dict[str, Any]) -> dict[str, list[Any]]:
        """Changes attributes of a queue permanently. Returns [old, new] for each changed attribute.

        Raises:
            RequestError: NAME_INVALID, QUEUE_UNKNOWN, VALUE_INVALID or QUEUE_IS_SYSTEM.
        """
        system.check_unlocked(name, "alter")
        known, old, config = self.named(name), self._rows[name], self._context.config
        row = attributes.altered(name, old, changes)
        if row == old:
            return {}
        if isinstance(known, Alias) and row[ALIAS_OF] != known.target:
            check_alias(self, name, row[ALIAS_OF])
        if row["kind"] == "local":
            attributes.check_in_force(name, row, self.templates.of(name))
        self.store_row(name, row)
        self.aliases.remove(known)
        if isinstance(known, Queue):
            self.apply_attributes(known)
        else:
            self.queues[name] = named(name, row)
            self.aliases.add(self.queues[name])
        before = attributes.in_force(config, self._full(name, old))
        after = attributes.in_force(config, self._full(name, row))
        return {key: [before[key], after[key]] for key in after if before[key] != after[key]}

    def row(self, name: str) -> dict[str, Any]:
        """Returns the row of *name*, which must exist."""
        return self._rows[name]

    def store_row(self, name: str, row: dict[str, Any]) -> None:
        """Replaces the row of *name* with *row*."""
        self._rows[name] = row
        self._write_queue(name, row)
        if (found := self.topics.subscriptions.get(name)) is not None:
            found.row = row

    def remove_queue(self, name: str) -> None:
        """Forgets *name*. A job removes the rows that the store has under its id."""
        if name in self.topics.subscriptions:
            self.topics.remove(name)
        else:
            del self.names[bisect_left(self.names, name)]
            self._disown(self._rows[name].get("owner", ""))
        found = self.queues.pop(name)
        self.aliases.remove(found)
        self.remotes.remove(found)
        self._rows.pop(name)
        self.templates.forget(name)
        self._context.tx.delete(keys.SPACE_QUEUE + name.encode())
        self._context.wrote = True
        if isinstance(found, Queue):
            found.deleted = True
            del self.by_id[found.id]
            self._context.totals.forget(found)
            self._context.dirty_queues.pop(found.id, None)
            self._context.awake_queues.pop(found.id, None)

    def _disown(self, owner: str) -> None:
        self.owned[owner] -= 1
        if not self.owned[owner]:
            del self.owned[owner]

    def show_queue(self, name: str) -> dict[str, Any]:
        """Returns the row of a queue with its counters, or the row of an alias."""
        known = self.named(name)
        row = self._rows[name]
        shown: dict[str, Any] = {"queue": name} | row | {"given": attributes.given_of(row)}
        shown |= attributes.in_force(self._context.config, self._full(name, row))
        if isinstance(known, Remote):
            waits_on = route.link_to(self, known.manager).queue.name
            shown |= {"target": known.target, "manager": known.manager, "waits_on": waits_on}
        used_ms = shown.pop("used_ms", None)
        if not isinstance(known, Queue):
            return shown
        found = self.templates.applied(name)
        shown |= {"lease_ms": known.bounds.lease_ms, "template": found.pattern if found else None}
        if known.bounds.unused_expiry_ms and used_ms is not None:
            is_in_use = known.waiting or known.leases
            shown["unused_ms"] = 0 if is_in_use else self._context.now.ms - used_ms
        return shown | known.describe()

    def next_queue_id(self) -> int:
        """Returns a queue id that was never used before."""
        queue_id = int.from_bytes(rows.get(self._context.tx, keys.NEXT_QUEUE), "big")
        rows.put(self._context.tx, keys.NEXT_QUEUE, (queue_id + 1).to_bytes(4, "big"))
        return queue_id
