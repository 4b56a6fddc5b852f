"""Units of work: their steps, and their ends.

    UnitBegin ──▶ open ──steps──▶ all answered ──UnitCommit──▶ done
                   │                                  │
                   └── connection lost: backed out    └── connection lost: repeated, by puts.py

1. A step (a put or an ack) counts once the queue manager has confirmed that the unit contains it.
2. A commit is sent when every step is answered, and contains the number of steps of each kind.
   Therefore, a commit covers exactly the steps that the caller knows of, or nothing.
3. A unit ends with its connection, unless its commit was sent. After that, only the answer decides.
4. A unit number is not reused. Therefore, a repeated commit finds its own unit or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qmgr_client.outgoing import PutResult
from qmgr_client.sansio.events import Events, PutDone
from qmgr_client.sansio.group_returns import GroupReturn
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgr_protocol.field import ID_END
from qmgr_protocol.layout import check_reply
from qmgr_protocol.record import Uid

# Refusals of a commit after which the unit no longer exists.
_GONE = (ErrorCode.UNIT_BACKED_OUT, ErrorCode.UNIT_INCOMPLETE, ErrorCode.UNIT_UNKNOWN)


@dataclass(slots=True, eq=False)
class Unit:
    """One unit of work. Invariant: ``error`` is None while the unit accepts steps."""

    number: int
    is_begun: bool = False  # whether the unit has begun on this connection
    puts: int = 0
    gets: set[tuple[int, bytes]] = field(default_factory=set)  # queue ids and handles
    pending: int = 0  # number of steps without an answer
    ticket: int = 0  # ticket of the commit that waits for these steps
    error: RequestError | None = None  # error that any further use of the unit raises
    is_over: bool = False  # whether the unit is committed, backed out or unknown
    is_undone: bool = False
    is_lost: bool = False  # whether the unit was lost with its connection
    members: list[tuple[int, bytes, int]] = field(default_factory=list)  # ticket, group id, number
    # Marked as answered together with the backout.
    group_returns: list[GroupReturn] = field(default_factory=list)

    def check(self) -> None:
        """Raises an error if the unit has ended or is being committed."""
        if self.error is not None:
            raise self.error

    def stepped(self) -> None:
        """Counts a step that is sent now."""
        self.check()
        self.pending += 1


class Commit(NamedTuple):
    """The commit of a unit, numbered like a put. The first fields are the fields of a put."""

    ticket: int
    queue: str
    record: bytes
    uid: Uid | None
    unit: Unit

    def under(self, stream: int, seq_id: int, seen: int) -> m.UnitCommit:
        """Returns the message to send."""
        unit = self.unit
        return m.UnitCommit(stream, seq_id, seen, unit.number, unit.puts, len(unit.gets))


class OpenUnits:
    """All units that have not ended.

    Invariant: a unit whose commit waits for steps has a ticket. Other commits are in ``ready`` or
    in the stream of puts.
    """

    def __init__(self, events: Events) -> None:
        self.ready: list[Commit] = []  # commits that must be numbered
        self._events = events
        self._open: dict[int, Unit] = {}
        self._last = 0

    @property
    def committing(self) -> int:
        """The number of commits that wait for steps or for their numbers."""
        return sum(1 for unit in self._open.values() if unit.ticket) + len(self.ready)

    def take_ready(self) -> list[Commit]:
        """Returns the commits that must be numbered now."""
        ready, self.ready = self.ready, []
        return ready

    def holds(self, queue_id: int, handle: bytes) -> bool:
        """Returns whether an open unit acknowledged the message of *handle*."""
        return any((queue_id, handle) in unit.gets for unit in self._open.values())

    def begin(self) -> Unit:
        """Returns a new unit with a new number."""
        self._last = self._last % (ID_END - 1) + 1
        unit = self._open[self._last] = Unit(self._last)
        return unit

    def answered(self, unit: Unit) -> None:
        """Records the answer to a step. The last answer releases a waiting commit."""
        unit.pending -= 1
        self._commit_if_answered(unit)

    def commit(self, unit: Unit, ticket: int) -> None:
        """Commits a unit once all its steps are answered.

        Raises:
            RequestError: The unit has ended or is being committed.
        """
        unit.check()
        unit.ticket = ticket
        unit.error = RequestError(
            ErrorCode.UNIT_UNKNOWN, f"unit of work {unit.number} is being committed"
        )
        self._commit_if_answered(unit)

    def _commit_if_answered(self, unit: Unit) -> None:
        if unit.ticket and not unit.pending:
            self.ready.append(Commit(unit.ticket, "", b"", None, unit))
            unit.ticket = 0

    def committed(self, unit: Unit, result: PutResult | RequestError) -> None:
        """Handles the result of a commit. A refusal that is not in _GONE leaves the unit open."""
        if isinstance(result, PutResult) or result.error_class is ErrorClass.UNKNOWN_OUTCOME:
            self.end(unit, unit_ended_error(unit), undone=False)
        elif result.code in _GONE or unit.number not in self._open:
            self.end(unit, backed_out_error(unit))
        else:
            unit.error = None

    def end(self, unit: Unit, error: RequestError, *, undone: bool = True) -> None:
        """Ends a unit. Further use raises *error*."""
        self._open.pop(unit.number, None)
        unit.error, unit.is_over, unit.is_undone = error, True, undone
        self._refuse_commit(unit, error)

    def lost(self) -> None:
        """Ends all units that were begun on the lost connection."""
        for commit in self.take_ready():
            self._events.append(PutDone(commit.ticket, backed_out_error(commit.unit)))
        for unit in [unit for unit in self._open.values() if unit.is_begun]:
            unit.is_lost = True
            self.end(unit, backed_out_error(unit))

    def fail(self, error: RequestError) -> None:
        """Ends every unit with *error*."""
        self._events += [PutDone(commit.ticket, error) for commit in self.take_ready()]
        for unit in list(self._open.values()):
            self.end(unit, error)

    def _refuse_commit(self, unit: Unit, error: RequestError) -> None:
        if unit.ticket:
            self._events.append(PutDone(unit.ticket, error))
            unit.ticket = 0


def outcomes(value: Any, uids: Sequence[Uid | None], origin: str) -> list[PutResult | RequestError]:
    """Returns the result of each record of a UnitPut from the *value* of the answer.

    Raises:
        FieldInvalid: The queue manager broke the protocol.
    """
    check_reply(m.UnitPut, value)
    refused, stamped = value[:2]
    results: list[PutResult | RequestError] = [PutResult(uid) for uid in uids]
    for first, timestamp, count in (run[:3] for run in stamped):
        for index in range(first, min(first + count, len(results))):
            results[index] = PutResult(Uid(origin, timestamp + index - first))
    for index, code, text in (refusal[:3] for refusal in refused):
        if index < len(results):
            results[index] = RequestError(code, text)
    return results


def backed_out_error(unit: Unit) -> RequestError:
    """Returns the error of a unit that was backed out."""
    text = f"unit of work {unit.number} was backed out: none of its steps took effect"
    return RequestError(ErrorCode.UNIT_BACKED_OUT, text)


def unit_ended_error(unit: Unit) -> RequestError:
    """Returns the error of a unit that its caller ended."""
    text = f"unit of work {unit.number} has ended: begin a new one"
    return RequestError(ErrorCode.UNIT_UNKNOWN, text)
