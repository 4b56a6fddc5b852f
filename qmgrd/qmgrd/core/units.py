"""Units of work of all connections: begun, filled, committed or backed out."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core import entry as entries
from qmgrd.core import lane, overflow, settle
from qmgrd.core import put as puts
from qmgrd.core.amount import amount
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.dead_letters import DeadLetters
from qmgrd.core.lease import Lease
from qmgrd.core.put import Prepared
from qmgrd.core.queue import Queue
from qmgrd.core.returns import BACKED_OUT, How, Returns
from qmgrd.core.session import Session
from qmgrd.core.unit import Held, Unit

ROWS_OF_A_GET = 4


class Units:
    """What units of work do. Each is its connection's own, and dies with it."""

    def __init__(
        self, context: Context, catalogue: Catalogue, returns: Returns, dead_letters: DeadLetters
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._returns = returns
        self._dead_letters = dead_letters

    def begin(self, session: Session, message: m.UnitBegin) -> None:
        """Begin a unit."""
        limits = self._context.config.unit
        if message.unit in session.units:
            raise RequestError(
                ErrorCode.VALUE_INVALID, f"unit {message.unit} is open on this connection already"
            )
        if len(session.units) >= limits.units_per_connection_max:
            raise RequestError(
                ErrorCode.UNITS_EXHAUSTED,
                f"{amount(len(session.units), 'open unit')} of work on this "
                f"connection, at most {limits.units_per_connection_max}",
            )
        unit = session.units[message.unit] = Unit(message.unit)
        due_ms = self._context.now.ms + limits.age_max_ms
        unit.timer = self._context.timers.at(due_ms, lambda: self._too_old(session, unit))
        self._context.send(session.connection, m.Ok(message.request_id))

    def _find(self, session: Session, number: int) -> Unit:
        unit = session.units.get(number)
        if unit is None:
            raise RequestError(
                ErrorCode.UNIT_UNKNOWN,
                f"unit {number} is not open on this connection: it was not begun, it is over, or "
                f"it was backed out after {self._context.config.unit.age_max_ms} ms",
            )
        return unit

    def put(self, session: Session, message: m.UnitPut) -> None:
        """Hold puts for the commit."""
        unit = self._find(session, message.unit)
        queue, target = self._catalogue.destination(message.queue)
        refused: list[list[Any]] = []
        stamped: list[list[int]] = []
        for index, record in enumerate(message.records):
            try:
                prepared = self._hold(unit, queue, record, target.encode())
            except RequestError as error:
                queue.counters.refused += error.code != ErrorCode.DUPLICATE_MESSAGE
                self._context.dirty_queues[queue.id] = queue
                refused.append([index, int(error.code), error.text])
                continue
            if prepared.is_new:
                _add_stamp(stamped, index, int.from_bytes(prepared.trailer[-8:], "big"))
        self._context.send(session.connection, m.Ok(message.request_id, [refused, stamped]))

    def _hold(self, unit: Unit, queue: Queue, record: bytes, bound_for: bytes) -> Prepared:
        """Add a put to *unit*.

        Raises:
            RequestError: why it is refused.
        """
        context = self._context
        self._check_room(unit, 1, len(record), entries.rows_of(len(record)) + 2)
        if context.store_full:
            raise RequestError(ErrorCode.STORE_FULL, context.store_full, 1_000)
        overflow.make_room(context, self._dead_letters, queue, 1, len(record))
        limit = queue.longest(context.config.limits.message_max_bytes)
        prepared = puts.prepare(
            queue, context.tx, context.now, context.stamper, record, limit, bound_for
        )
        arrival = 0 if queue.is_transmission else queue.next_arrival()
        index_key = queue.origins.index_key(prepared.trailer, bound_for)
        rows = entries.rows_of(len(record)) + lane.ROWS_OF_A_PUT
        unit.hold(Held(queue, prepared, arrival, index_key), rows)
        context.rows += 1
        return prepared

    def _check_room(self, unit: Unit, messages: int, bytes_: int, rows: int) -> None:
        limits = self._context.config.unit
        for count, most, word in (
            (len(unit.puts) + unit.gets + messages, limits.messages_max, "messages"),
            (unit.bytes + bytes_, limits.bytes_max, "bytes"),
            (unit.rows + rows, limits.rows_max, "rows of the store"),
        ):
            if count > most:
                raise RequestError(
                    ErrorCode.UNIT_TOO_LARGE,
                    f"unit {unit.number} would hold {count} {word}, at most {most}",
                )

    def take(self, session: Session, number: int, queue: Queue, lease: Lease) -> None:
        """Have a leased message be removed with the commit, and be leased until then.

        Raises:
            RequestError: UNIT_UNKNOWN, UNIT_TOO_LARGE.
        """
        unit = self._find(session, number)
        self._check_room(unit, 1, 0, ROWS_OF_A_GET)
        unit.rows += ROWS_OF_A_GET
        lessee = unit.lessee(queue, session.name)
        lease.lessee.leases.pop(lease.arrival, None)
        taken = lease._replace(lessee=lessee)
        queue.leases[lease.arrival] = lessee.leases[lease.arrival] = taken

    def commit(self, session: Session, message: m.UnitCommit) -> None:
        """Do all of a unit, in this turn.

        Raises:
            RequestError: UNIT_BACKED_OUT, UNIT_INCOMPLETE: nothing of it is done, and it is over.
                STORE_FULL: it is open still.
        """
        unit = session.units.get(message.unit)
        if unit is None:
            raise RequestError(
                ErrorCode.UNIT_BACKED_OUT,
                f"unit {message.unit} is not open here: its connection was lost, it grew too old, "
                "or it was backed out; nothing of it was done",
            )
        self._check(session, unit, message)
        context = self._context
        context.reserve([held.prepared.record for held in unit.puts])
        self._close(session, unit)
        for queue, prepared, arrival, _ in unit.let_go():
            context.rows += puts.append(
                queue, context.tx, prepared, arrival or queue.next_arrival()
            )
            context.touch(queue)
        for lessee in unit.lessees.values():
            queue = lessee.queue
            for lease in list(lessee.leases.values()):
                settle.consume(queue, context.tx, context.now, lease)
                context.rows += ROWS_OF_A_GET
            context.touch(queue)

    def _check(self, session: Session, unit: Unit, message: m.UnitCommit) -> None:
        """Back *unit* out and raise where it cannot be committed as it was meant."""
        gone = [held.queue.name for held in unit.puts if held.queue.deleted]
        gone += [x.queue.name for x in unit.lessees.values() if x.queue.deleted]
        if gone:
            self.undo(session, unit)
            raise RequestError(
                ErrorCode.UNIT_BACKED_OUT,
                f"unit {unit.number} was backed out: queue {gone[0]} was deleted meanwhile",
            )
        held, gets = len(unit.puts), unit.gets
        if (held, gets) != (message.puts, message.gets):
            self.undo(session, unit)
            raise RequestError(
                ErrorCode.UNIT_INCOMPLETE,
                f"unit {unit.number} holds {held} puts and {gets} gets, its commit says "
                f"{message.puts} and {message.gets}: it was backed out",
            )

    def backout(self, session: Session, message: m.UnitBackout) -> None:
        """Undo a unit."""
        unit = self._find(session, message.unit)
        value = [len(unit.puts), unit.gets]
        self.undo(session, unit)
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def undo(self, session: Session, unit: Unit) -> None:
        """Have nothing of *unit* be done; what it got comes back to its old place."""
        self._close(session, unit)
        for held in unit.let_go():
            self._context.awake(held.queue)
        for lessee in unit.lessees.values():
            for lease in list(lessee.leases.values()):
                self._returns.give_back(lease, BACKED_OUT)

    def _close(self, session: Session, unit: Unit) -> None:
        del session.units[unit.number]
        if unit.timer is not None:
            self._context.timers.cancel(unit.timer)

    def _too_old(self, session: Session, unit: Unit) -> None:
        age_ms = self._context.config.unit.age_max_ms
        self._context.event("unit of work backed out", client=session.name, age_ms=age_ms)
        unit.timer = None
        self.undo(session, unit)

    def close(self, session: Session) -> list[tuple[Lease, How]]:
        """Forget the units of a connection that is gone; return what is to come back, and how."""
        found: list[tuple[Lease, How]] = []
        for unit in list(session.units.values()):
            self._close(session, unit)
            unit.let_go()
            for lessee in unit.lessees.values():
                found += [(lease, BACKED_OUT) for lease in lessee.leases.values()]
        return found


def _add_stamp(runs: list[list[int]], index: int, timestamp: int) -> None:
    """Add to *runs* that the put of that *index* has that *timestamp*."""
    if runs:
        run = runs[-1]
        if run[0] + run[2] == index and run[1] + run[2] == timestamp:
            run[2] += 1
            return
    runs.append([index, timestamp, 1])
