"""Units of work of all connections: begins, fills, commits and backs out units."""

from collections.abc import Callable, Iterator
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context import committed
from qmgrd.core.context.context import Context
from qmgrd.core.context.eviction import make_room_for_all
from qmgrd.core.layout import entry as entries
from qmgrd.core.limits.room import unit_rows
from qmgrd.core.puts import client_rights
from qmgrd.core.queue import lane, plain, settle
from qmgrd.core.queue import put as puts
from qmgrd.core.queue.group.groups import ROWS_OF_A_MEMBER
from qmgrd.core.queue.held_puts import HeldPut, append_held
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.put import Prepared
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.returns.returns import BACKED_OUT, Returns, ReturnTerms
from qmgrd.core.sessions.incoming_bodies import IncomingBodies, always, use_up
from qmgrd.core.sessions.refusal_rows import shortened
from qmgrd.core.sessions.request_part import UnitPutPart
from qmgrd.core.sessions.session import Session, UnitPutAnswer, error_of
from qmgrd.core.sessions.unit import PUT_BYTES, SessionUnit
from qmgrd.core.sessions.unit_memory import UnitMemory

# The maximum number of rows of a put: entry, UID, and the index rows for correlation id, group and
# time.
ROWS_OF_A_GET = 7


class Units:
    """The units of work. Each unit belongs to one connection and ends with it."""

    def __init__(
        self, context: Context, catalogue: Catalogue, returns: Returns, dead_letters: DeadLetters
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._returns = returns
        self._dead_letters = dead_letters
        # The maximum number of rows that a commit may write.
        self._rows_max = unit_rows(context.config)
        self._memory = UnitMemory(context.config.unit)

    def begin(self, session: Session, message: m.UnitBegin) -> None:
        """Begins a unit."""
        limits = self._context.config.unit
        if message.unit in session.units:
            raise RequestError(
                ErrorCode.VALUE_INVALID, f"unit {message.unit} is already open on this connection"
            )
        if len(session.units) >= limits.units_per_connection_max:
            raise RequestError(
                ErrorCode.UNITS_EXHAUSTED,
                f"{amount(len(session.units), 'open unit')} of work on this connection "
                f"(the limit is {limits.units_per_connection_max})",
            )
        unit = session.units[message.unit] = SessionUnit(message.unit, session)
        due_ms = self._context.now.ms + limits.age_max_ms
        unit.timer = self._context.timers.at(due_ms, lambda: self._too_old(session, unit))
        self._context.send(session.connection, m.Ok(message.request_id))

    def _find(self, session: Session, number: int) -> SessionUnit:
        unit = session.units.get(number)
        if unit is None:
            raise RequestError(
                ErrorCode.UNIT_UNKNOWN,
                f"unit {number} is not open on this connection: it was never begun, has ended, or "
                f"was backed out after {self._context.config.unit.age_max_ms} ms",
            )
        return unit

    def put(self, session: Session, message: m.UnitPut) -> None:
        """Holds puts until the commit."""
        refused, stamped = self._put(session, message)
        self._context.send(
            session.connection, m.Ok(message.request_id, [shortened(refused), stamped])
        )

    def put_part(
        self, session: Session, part: UnitPutPart, error: RequestError | None = None
    ) -> None:
        """Holds one part of a long put, or refuses it with *error*. The last part sends the reply.

        If the first part is refused as a whole, nothing is put, and the reply is the error. A later
        part can be refused if a right, the queue or the unit is lost between two turns. Its records
        are then refused one by one, so that the unit still has those that the reply reports.
        """
        put, first_index = part.put, part.first_index
        if first_index == 0:
            session.unit_put_answer = UnitPutAnswer()
        answer = session.unit_put_answer
        if answer.error is None:
            try:
                if error is not None:
                    raise error
                refused, stamped = self._put(session, put)
            except RequestError as why:
                if first_index == 0:
                    answer.error = why
                use_up(self._context, session, put)
                row = [int(why.code), why.text]
                refused, stamped = [[index, *row] for index in range(len(put.records))], []
            answer.refused += ([first_index + index, *row] for index, *row in refused)
            for index, timestamp, count in stamped:
                committed.add_stamps(answer.stamped, first_index + index, timestamp, count)
        if part.is_last:
            session.unit_put_answer = UnitPutAnswer()
            value = [shortened(answer.refused), answer.stamped]
            ok, error = m.Ok(put.request_id, value), answer.error
            reply = ok if error is None else error_of(put.request_id, error)
            self._context.send(session.connection, reply)

    def _put(self, session: Session, message: m.UnitPut) -> tuple[list[list[Any]], list[list[int]]]:
        """Holds puts. Returns the rows of the refused ones, and the stamps of the others."""
        if message.bodies:
            incoming = session.incoming or IncomingBodies(session.connection)
            with incoming.named_in(self._context, message, always) as put:
                return self._put(session, put)
        unit = self._find(session, message.unit)
        queue, target = self._destination(message)
        batch, bound_for = message.records, target.encode()
        plain_max = self._plain_max_bytes(unit, queue, batch)
        self._context.stamper.catch_up(self._context.now.wall_us)
        refused: list[list[Any]] = []
        stamped: list[list[int]] = []
        # None of these records is plain, so none of them is held with those before it.
        errors = client_rights.refusals(session.check_right, batch)
        index = 0
        while index < len(batch):
            run = batch[index : index + puts.RUN_MAX_RECORDS]
            try:
                if index in errors:
                    # Records may share an error, whose traceback would grow with each of them.
                    raise errors[index].with_traceback(None)
                found = self._hold_plain(unit, queue, run, bound_for, plain_max) or self._hold(
                    unit, queue, run[0], bound_for
                )
            except RequestError as error:
                if error.code != ErrorCode.DUPLICATE_MESSAGE:
                    queue.counters.count_refused()
                self._context.dirty_queues[queue.id] = queue
                refused.append([index, int(error.code), error.text])
                index += 1
                continue
            if found[0].is_new:
                timestamp = int.from_bytes(found[0].trailer[records.UID_TIMESTAMP], "big")
                committed.add_stamps(stamped, index, timestamp, len(found))
            index += len(found)
        return refused, stamped

    def _destination(self, message: m.UnitPut) -> tuple[Queue, str]:
        try:
            return self._catalogue.destination(message.queue)
        except RequestError as error:
            if error.code == ErrorCode.PUT_INHIBITED:
                storing_queue = self._catalogue.storing_queue(message.queue)
                storing_queue.counters.count_refused(len(message.records))
                self._context.dirty_queues[storing_queue.id] = storing_queue
            raise

    def _plain_max_bytes(self, unit: SessionUnit, queue: Queue, batch: list[bytes]) -> int:
        """Returns the maximum size of a plain record in *batch*, or 0 if some records may not
        fit.
        """
        size = plain.bytes_max(batch)
        rows = (ROWS_OF_A_GET + 1) * len(batch) + size // entries.VALUE_MAX_BYTES
        try:
            self._check_room(unit, len(batch), size, rows)
        except RequestError:
            return 0
        if self._context.store_full:
            return 0
        return plain.plain_max_bytes(queue, batch, self._longest(queue))

    def _hold_plain(
        self, unit: SessionUnit, queue: Queue, batch: list[bytes], bound_for: bytes, plain_max: int
    ) -> list[Prepared]:
        """Adds the plain puts at the start of *batch* to *unit* and returns them.

        *batch* must fit.
        """
        if not plain_max or not plain.looks_plain(queue, batch[0]):
            return []
        context = self._context
        found = puts.prepare_plain(queue, context.now, context.stamper, batch, plain_max, bound_for)
        if found:
            indexed = sum(x.record[records.CORRELATION_LENGTH_AT] > 0 for x in found)
            self._keep(unit, queue, found, bound_for, lane.ROWS_OF_A_PUT * len(found) + indexed)
        return found

    def _hold(
        self, unit: SessionUnit, queue: Queue, record: bytes, bound_for: bytes
    ) -> list[Prepared]:
        """Adds a put to *unit*.

        Raises:
            RequestError: The reason for the refusal.
        """
        context = self._context
        rows = entries.rows_of(len(record)) + lane.ROWS_OF_A_PUT
        self._check_room(unit, 1, len(record), rows)
        if context.store_full:
            raise RequestError(ErrorCode.STORE_FULL, context.store_full, 1_000)
        prepared = puts.prepare(
            queue,
            context.tx,
            context.now,
            context.stamper,
            record,
            self._longest(queue),
            bound_for,
            is_held=True,
        )
        rows += _more_rows(prepared)
        self._check_room(unit, 1, len(record), rows)
        self._keep(unit, queue, [prepared], bound_for, rows)
        return [prepared]

    def _keep(
        self, unit: SessionUnit, queue: Queue, found: list[Prepared], bound_for: bytes, rows: int
    ) -> None:
        """Adds the checked puts *found* to *unit*, each with its arrival number."""
        index_prefix, has_place = queue.origins.index_prefix(bound_for), not queue.is_transmission
        held = [
            HeldPut(
                queue,
                x,
                queue.next_arrival(is_new=x.is_new) if has_place else 0,
                index_prefix + x.trailer,
            )
            for x in found
        ]
        self._memory.count(unit.session, unit.add_puts(queue, held, rows))
        self._context.count_read(len(held), 0)

    def _let_go(self, unit: SessionUnit) -> list[HeldPut]:
        """Removes the puts of *unit* and returns them."""
        self._memory.count(unit.session, -unit.held_bytes)
        return unit.remove_puts()

    def _longest(self, queue: Queue) -> int:
        return queue.longest(self._context.config.limits.message_max_bytes)

    def _check_room(self, unit: SessionUnit, messages: int, bytes_: int, rows: int) -> None:
        limits = self._context.config.unit
        for count, most, word in (
            (len(unit.puts) + unit.gets + messages, limits.messages_max, "messages"),
            (unit.bytes + bytes_, limits.bytes_max, "bytes"),
            (unit.rows + rows, self._rows_max, "rows of the store"),
        ):
            if count > most:
                raise RequestError(
                    ErrorCode.UNIT_TOO_LARGE,
                    f"unit {unit.number} would exceed its limit of {most} {word}, with {count}",
                )
        if bytes_:
            self._memory.check(unit.session, bytes_ + PUT_BYTES * messages)

    def take(self, session: Session, number: int, queue: Queue, lease: Lease) -> None:
        """Leases a message to a unit of work. The commit of the unit removes the message.

        Raises:
            RequestError: UNIT_UNKNOWN, UNIT_TOO_LARGE, or LEASE_LOST if another connection holds
                the lease.
        """
        unit, rows = self._find(session, number), _rows_of_a_get(lease)
        if lease.lessee.numbers is not session.numbers:
            raise RequestError(
                ErrorCode.LEASE_LOST, f"another connection has leased this message of {queue.name}"
            )
        self._check_room(unit, 1, 0, rows)
        unit.rows += rows
        lessee = unit.lessee(queue)
        lease.lessee.leases.pop(lease.arrival, None)
        # Only the commit of the unit settles this lease.
        taken = lease._replace(lessee=lessee, is_plain=False)
        queue.leases[lease.arrival] = lessee.leases[lease.arrival] = taken

    def commit(self, session: Session, message: m.UnitCommit) -> None:
        """Applies a whole unit in this turn.

        Raises:
            RequestError: UNIT_BACKED_OUT, UNIT_INCOMPLETE or NOT_AUTHORIZED if nothing was applied
                and the unit has ended. STORE_FULL if the unit is still open.
        """
        unit = session.units.get(message.unit)
        if unit is None:
            raise RequestError(
                ErrorCode.UNIT_BACKED_OUT,
                f"unit {message.unit} is not open here: its connection was lost, it exceeded the "
                "maximum age, "
                "or it was backed out; none of it was applied",
            )
        self._check(session, unit, message)
        context = self._context
        if unit.puts:  # Gets need no room. They free room.
            context.reserve([held.prepared.record for held in unit.puts])
            context.reserve(list(self._carried(unit)))
        self._close(session, unit)
        self._consume(unit)  # Consuming messages also frees room.
        by_queue: dict[int, list[HeldPut]] = {}
        for one in self._let_go(unit):
            by_queue.setdefault(one.queue.id, []).append(one)
        for held in by_queue.values():
            queue, make_dead_letter = held[0].queue, self._dead_letters.make_dead_letter
            make_room_for_all(context, make_dead_letter, queue, held, is_put=False)
            append_held(queue, context.tx, held)
            make_room_for_all(context, make_dead_letter, queue, held, is_put=True)
            context.mark_changed(queue)

    def _carried(self, unit: SessionUnit) -> Iterator[bytes]:
        """Yields the publications of *unit*, once for each link that carries them."""
        for held in unit.puts:
            if held.queue.is_publications:
                proxies = self._catalogue.topics.proxies_of(held.prepared.target.decode())
                yield from [held.prepared.record] * len(proxies)

    def _consume(self, unit: SessionUnit) -> None:
        context = self._context
        for lessee in unit.lessees.values():
            queue, leases = lessee.queue, list(lessee.leases.values())
            for lease in leases:
                settle.consume(queue, context.tx, context.now, lease)
            context.mark_changed(queue)
            self._returns.count(queue, len(leases), 0)

    def _check(self, session: Session, unit: SessionUnit, message: m.UnitCommit) -> None:
        """Raises an error and backs out *unit* if it differs from the numbers in the commit."""
        gone = [held.queue.name for held in unit.puts if held.queue.deleted]
        gone += [x.queue.name for x in unit.lessees.values() if x.queue.deleted]
        if gone:
            self.undo(session, unit)
            raise RequestError(
                ErrorCode.UNIT_BACKED_OUT,
                f"unit {unit.number} was backed out: queue {gone[0]} was deleted in the meantime",
            )
        held, gets = len(unit.puts), unit.gets
        if (held, gets) != (message.puts, message.gets):
            self.undo(session, unit)
            raise RequestError(
                ErrorCode.UNIT_INCOMPLETE,
                f"unit {unit.number} was backed out: it has {held} puts and {gets} gets, but its "
                f"commit expects {message.puts} and {message.gets}",
            )
        if session.check_right is not None:
            self._check_rights(session, unit, session.check_right)

    def _check_rights(
        self, session: Session, unit: SessionUnit, check: Callable[[Right, str], None]
    ) -> None:
        """Backs *unit* out and raises NOT_AUTHORIZED if its user has lost a right that it needs."""
        try:
            for name in unit.names():
                check(Right.PUT, name)
            for lessee in unit.lessees.values():
                if lessee.leases:
                    check(Right.GET, lessee.queue.name)
        except RequestError as error:
            self.undo(session, unit)
            raise RequestError(
                ErrorCode.NOT_AUTHORIZED,
                f"unit {unit.number} was backed out, because a right was revoked: {error.text}",
            ) from error

    def backout(self, session: Session, message: m.UnitBackout) -> None:
        """Backs out a unit on request."""
        unit = self._find(session, message.unit)
        value = [len(unit.puts), unit.gets]
        self.undo(session, unit, BACKED_OUT._replace(reason=message.reason, text=message.text))
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def undo(self, session: Session, unit: SessionUnit, how: ReturnTerms = BACKED_OUT) -> None:
        """Discards *unit*. Its leased messages return to their original positions.

        The messages return at the end of this turn, or over several turns if they exceed a slice.
        """
        self._close(session, unit)
        for queue, _, arrival, _ in self._let_go(unit):
            if arrival and not queue.deleted:  # The position remains empty, even after a crash.
                self._context.dirty_queues[queue.id] = queue
        for lessee in unit.lessees.values():
            self._returns.give_back_later(lessee.leases.values(), how)

    def _close(self, session: Session, unit: SessionUnit) -> None:
        del session.units[unit.number]
        if unit.timer is not None:
            self._context.timers.cancel(unit.timer)
            unit.timer = None

    def _too_old(self, session: Session, unit: SessionUnit) -> None:
        age_ms = self._context.config.unit.age_max_ms
        self._context.event("unit of work backed out", client=session.name, age_ms=age_ms)
        self.undo(session, unit)

    def close(self, session: Session, how: ReturnTerms = BACKED_OUT) -> None:
        """Backs out the units of a closed connection."""
        for unit in list(session.units.values()):
            self.undo(session, unit, how)


def _rows_of_a_get(lease: Lease) -> int:
    """Returns the approximate number of rows that change when a leased message is consumed."""
    rows = lane.ROWS_OF_A_PUT if lease.is_plain else ROWS_OF_A_GET
    return rows + entries.rows_of(lease.size)


def _more_rows(prepared: Prepared) -> int:
    """Returns the number of index rows of a put, in addition to the row of its UID."""
    correlation_id = prepared.record[records.CORRELATION_LENGTH_AT]
    is_timed = prepared.expires_ms or prepared.ready_ms
    in_group = ROWS_OF_A_MEMBER if prepared.member is not None else 0
    return bool(correlation_id) + in_group + bool(is_timed)
