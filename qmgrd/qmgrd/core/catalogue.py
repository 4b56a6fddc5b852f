"""The queues that are defined: stored rows, and the objects made of them; and the links there are.

    ORDERS        a local queue
    FLIGHTS@NYC   a remote queue: what is put on it goes to FLIGHTS on queue manager NYC
    @NYC          the transmission queue of link NYC: made and deleted with the link

Queue ids are given once and never used again; names are free again when a queue is deleted.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from qmgr_protocol import name as names
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core import attributes, keys
from qmgrd.core import row as rows
from qmgrd.core.amount import amount
from qmgrd.core.context import Context
from qmgrd.core.counters import Counters
from qmgrd.core.kv import Transaction
from qmgrd.core.link import Link
from qmgrd.core.near import LOOKED_AT_MAX, nearest
from qmgrd.core.queue import Queue


class Remote(NamedTuple):
    """A remote queue: where its messages go."""

    name: str
    target: str
    manager: str
    put_inhibit: bool = False


class Catalogue:
    """What is defined. Invariant: ``by_id`` holds each queue of ``queues`` that is not remote."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queues: dict[str, Queue | Remote] = {}
        self.by_id: dict[int, Queue] = {}
        self.links: dict[str, Link] = {}
        self._rows: dict[str, dict[str, Any]] = {}

    def load(self, dropped: set[int], *, unclean: bool) -> None:
        """Read all rows. After an unclean stop older messages count as maybe delivered.

        Args:
            dropped: ids of deleted queues of which something may be left.

        Raises:
            RowDamaged: one is, or there are traces of one that is missing.
        """
        tx = self._context.tx
        for key, row in rows.scan(tx, keys.SPACE_QUEUE):
            self._add_queue(key[1:].decode(), unpack(row), unclean=unclean)
        for key, _ in tx.scan(keys.SPACE_COUNTERS, keys.after(keys.SPACE_COUNTERS)):
            queue_id = int.from_bytes(key[1:], "big")
            if queue_id not in self.by_id and queue_id not in dropped:
                raise rows.RowDamaged(f"the definition of queue id {queue_id}", "it is missing")
        for queue in self.by_id.values():
            _check_arrivals(tx, queue)
        rows.get(tx, keys.NEXT_QUEUE)

    def local(self, name: str) -> Queue:
        """Return the local or transmission queue *name*.

        Raises:
            RequestError: NAME_INVALID, QUEUE_UNKNOWN or QUEUE_IS_REMOTE.
        """
        found = self.find(name)
        if isinstance(found, Remote):
            raise RequestError(
                ErrorCode.QUEUE_IS_REMOTE,
                f"{name} is a remote queue: its messages wait on @{found.manager} "
                f"and are got at {found.manager}",
            )
        return found

    def find(self, name: str) -> Queue | Remote:
        """Return what *name* names.

        Raises:
            RequestError: NAME_INVALID or QUEUE_UNKNOWN.
        """
        found = self.queues.get(name)
        if found is None:
            names.split(name)
            raise self._no_queue(name)
        return found

    def destination(self, name: str) -> tuple[Queue, str]:
        """Return the queue on which a put to *name* is stored, and the target behind a link.

        Raises:
            RequestError: as :meth:`find`; QUEUE_IS_TRANSMISSION, PUT_INHIBITED.
        """
        found = self.find(name)
        if isinstance(found, Remote):
            if found.put_inhibit:
                raise attributes.put_inhibited(name)
            queue, target = self.keeper(name), found.target
        elif found.is_transmission:
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION,
                f"{name} is filled by puts to remote queues such as QUEUE{name}",
            )
        else:
            queue, target = found, ""
        if queue.bounds.put_inhibit:
            raise attributes.put_inhibited(queue.name)
        return queue, target

    def keeper(self, name: str) -> Queue:
        """Return the queue that stores what is put on *name*: of a remote one its link's.

        Raises:
            RequestError: as :meth:`find`.
        """
        found = self.find(name)
        return self.links[found.manager].queue if isinstance(found, Remote) else found

    def create_queue(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Define a queue and return its row; the same definition again changes nothing.

        Raises:
            RequestError: NAME_INVALID, VALUE_INVALID, QUEUE_EXISTS with other attributes,
                LINK_UNKNOWN for a remote queue, QUEUES_EXHAUSTED.
        """
        target, manager = names.split(name)
        if not target:
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION,
                f"{name} comes with the link; create that with: "
                f"qmctl link create {manager} HOST:PORT",
            )
        attributes.queue_attributes(name, given, "remote" if manager else "local")
        if name in self.queues:
            self._check_same(name, given)
            return self.show_queue(name)
        row: dict[str, Any] = attributes.stored(given)
        self.check_room()
        if manager:
            if manager not in self.links:
                raise no_link(manager)
            row |= {"kind": "remote", "queue_id": 0}
        else:
            row |= {"kind": "local", "queue_id": self.next_queue_id()}
        self.store_queue(name, row)
        return self.show_queue(name)

    def _check_same(self, name: str, given: dict[str, Any]) -> None:
        known = self._rows[name]
        if not attributes.is_same(known, given):
            old = {key: value for key, value in known.items() if key not in ("kind", "queue_id")}
            raise RequestError(
                ErrorCode.QUEUE_EXISTS, f"queue {name} exists with other attributes: {old or '{}'}"
            )

    def check_room(self) -> None:
        """Raise QUEUES_EXHAUSTED where no further queue may be defined."""
        limit = self._context.config.limits.queues_max
        if len(self.queues) >= limit:
            raise RequestError(
                ErrorCode.QUEUES_EXHAUSTED, f"{amount(len(self.queues), 'queue')}, at most {limit}"
            )

    def store_queue(self, name: str, row: dict[str, Any]) -> None:
        """Define a queue of that *row*."""
        self._write_queue(name, row)
        if row["kind"] != "remote":
            Counters().write(self._context.tx, row["queue_id"])
        self._add_queue(name, row, unclean=False)

    def _write_queue(self, name: str, row: dict[str, Any]) -> None:
        rows.put(self._context.tx, keys.SPACE_QUEUE + name.encode(), pack(row))
        self._context.wrote = True

    def _add_queue(self, name: str, row: dict[str, Any], *, unclean: bool) -> None:
        self._rows[name] = row
        if row["kind"] == "remote":
            self.queues[name] = Remote(name, *names.split(name), row.get("put_inhibit", False))
            return
        queue_id = row["queue_id"]
        queue = Queue(
            queue_id, name, attributes.bounds(self._context.config, row),
            Counters.read(self._context.tx, queue_id, name), self._context.ids,
            is_transmission=row["kind"] == "transmission", unclean=unclean,
        )  # fmt: skip
        self.queues[name] = self.by_id[queue_id] = queue

    def alter_queue(self, name: str, changes: dict[str, Any]) -> dict[str, list[Any]]:
        """Change attributes of a queue for good; return those that are others now: [old, new].

        Raises:
            RequestError: NAME_INVALID, QUEUE_UNKNOWN, VALUE_INVALID.
        """
        found, old, config = self.find(name), self._rows[name], self._context.config
        row = attributes.altered(name, old, changes)
        if row == old:
            return {}
        self._rows[name] = row
        self._write_queue(name, row)
        if isinstance(found, Remote):
            self.queues[name] = found._replace(put_inhibit=row.get("put_inhibit", False))
        else:
            found.bounds = attributes.bounds(config, row)
        before, after = attributes.in_force(config, old), attributes.in_force(config, row)
        return {key: [before[key], after[key]] for key in after if before[key] != after[key]}

    def remove_queue(self, name: str) -> None:
        """Forget *name*; what was stored under its id is a job's to remove."""
        found = self.queues.pop(name)
        self._rows.pop(name)
        self._context.tx.delete(keys.SPACE_QUEUE + name.encode())
        self._context.wrote = True
        if isinstance(found, Queue):
            found.deleted = True
            del self.by_id[found.id]
            self._context.dirty_queues.pop(found.id, None)
            self._context.awake_queues.pop(found.id, None)

    def show_queue(self, name: str) -> dict[str, Any]:
        """Return the row of a queue with its counters."""
        found = self.find(name)
        row = self._rows[name]
        shown: dict[str, Any] = {"queue": name} | row | {"given": attributes.given_of(row)}
        if isinstance(found, Remote):
            return shown | {
                "put_inhibit": found.put_inhibit, "target": found.target, "manager": found.manager,
            }  # fmt: skip
        bounds = found.bounds
        shown |= {
            "depth_max": bounds.depth_max,
            "bytes_max": bounds.bytes_max,
            "lease_ms": bounds.lease_ms,
            "put_inhibit": bounds.put_inhibit,
            "get_inhibit": bounds.get_inhibit,
        }
        return shown | found.describe()

    def remotes_of(self, manager: str) -> Iterator[str]:
        """Yield the names of the remote queues that lead over the link to *manager*."""
        for name, found in self.queues.items():
            if isinstance(found, Remote) and found.manager == manager:
                yield name

    def _no_queue(self, name: str) -> RequestError:
        self._context.count_read(min(len(self.queues), LOOKED_AT_MAX), 0)
        meant = nearest(name, self.queues)
        target, manager = names.split(name)
        hint = f"did you mean {meant}? if not, create" if meant else "create"
        how = f"queue create {name}" if target else f"link create {manager} HOST:PORT"
        return RequestError(
            ErrorCode.QUEUE_UNKNOWN,
            f"queue {name} does not exist here; {hint} it with: qmctl {how}",
        )

    def next_queue_id(self) -> int:
        """Return a queue id that was never given before."""
        queue_id = int.from_bytes(rows.get(self._context.tx, keys.NEXT_QUEUE), "big")
        rows.put(self._context.tx, keys.NEXT_QUEUE, (queue_id + 1).to_bytes(4, "big"))
        return queue_id


def no_link(name: str) -> RequestError:
    """Return that there is no link *name*, and how to make it."""
    return RequestError(
        ErrorCode.LINK_UNKNOWN,
        f"there is no link to {name}; create it with: qmctl link create {name} HOST:PORT",
    )


def _check_arrivals(tx: Transaction, queue: Queue) -> None:
    """Raise RowDamaged where a message lies at or behind the next arrival: a put would replace it.

    A seek for each priority that there is, and one more.
    """
    start = keys.of_queue(keys.SPACE_MESSAGE, queue.id)
    stop = keys.after(start)
    next_arrival = queue.counters.next_arrival
    while (found := next(tx.scan(start, stop), None)) is not None:
        _, arrival = keys.place(found[0])
        if arrival >= next_arrival:
            raise rows.RowDamaged(
                f"the counters of queue {queue.name} (id {queue.id})",
                f"message {arrival} is there, yet the next is to be {next_arrival}",
            )
        # The same lane and priority, from where nothing should be: else it is the next one's first.
        start = found[0][:-8] + next_arrival.to_bytes(8, "big")
