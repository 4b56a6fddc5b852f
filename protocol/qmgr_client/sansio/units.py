"""Units of work: what each is known to hold, and what becomes of it.

    UnitBegin ──▶ open ──steps──▶ all answered ──UnitCommit──▶ done
                   │                                  │
                   └── connection lost: backed out    └── connection lost: sent again, by puts.py

1. A step (a put, an ack) counts once the queue manager said that it is in the unit.
2. A commit goes out when every step is answered, and says the counts. So it commits what its
   caller was told, or nothing.
3. A unit lives and dies with its connection. Once its commit was sent, only the answer to that
   tells.
4. A number is never used again: a commit that is sent again meets its own unit, or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qmgr_client.outgoing import PutResult
from qmgr_client.sansio.events import Events, PutDone
from qmgr_client.sansio.taken_back import TakenBack
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgr_protocol.field import ID_END
from qmgr_protocol.layout import check_reply
from qmgr_protocol.record import Uid

# The refusals of a commit that tell that its unit is gone.
_GONE = (ErrorCode.UNIT_BACKED_OUT, ErrorCode.UNIT_INCOMPLETE, ErrorCode.UNIT_UNKNOWN)


@dataclass(slots=True, eq=False)
class Unit:
    """One unit of work. Invariant: ``error`` is None as long as it takes steps."""

    number: int
    is_begun: bool = False  # on this connection
    puts: int = 0
    gets: set[tuple[int, bytes]] = field(default_factory=set)  # queue id and handle
    pending: int = 0  # steps without an answer
    ticket: int = 0  # of the commit that waits for them
    error: RequestError | None = None  # what whoever uses it is told
    is_over: bool = False  # for good: done, undone, or nobody knows
    is_undone: bool = False
    is_lost: bool = False  # with its connection
    members: list[tuple[int, bytes, int]] = field(default_factory=list)  # see consumers.py
    taken_back: list[TakenBack] = field(default_factory=list)  # to be told when it is undone

    def check(self) -> None:
        """Raise what stands against another step: it is over, or its commit is under way."""
        if self.error is not None:
            raise self.error

    def stepped(self) -> None:
        """Count a step that is asked for now."""
        self.check()
        self.pending += 1


class Commit(NamedTuple):
    """The commit of a unit, numbered among puts; what it has in common with one comes first."""

    ticket: int
    queue: str
    record: bytes
    uid: Uid | None
    unit: Unit

    def under(self, stream: int, seq_id: int, seen: int) -> m.UnitCommit:
        """Return the message that says it."""
        unit = self.unit
        return m.UnitCommit(stream, seq_id, seen, unit.number, unit.puts, len(unit.gets))


class Units:
    """All units that are not over.

    Invariant: those whose commit waits for steps have a ticket; the commits of others are in
    ``ready``, or with the puts.
    """

    def __init__(self, events: Events) -> None:
        self.ready: list[Commit] = []  # to be numbered
        self._events = events
        self._open: dict[int, Unit] = {}
        self._last = 0

    @property
    def committing(self) -> int:
        """How many commits wait for steps."""
        return sum(1 for unit in self._open.values() if unit.ticket) + len(self.ready)

    def take_ready(self) -> list[Commit]:
        """Return the commits that are to be numbered now."""
        ready, self.ready = self.ready, []
        return ready

    def holds(self, queue_id: int, handle: bytes) -> bool:
        """Return whether an open unit has got the message of that handle."""
        return any((queue_id, handle) in unit.gets for unit in self._open.values())

    def begin(self) -> Unit:
        """Return a new unit, under a number that none had."""
        self._last = self._last % (ID_END - 1) + 1
        unit = self._open[self._last] = Unit(self._last)
        return unit

    def answered(self, unit: Unit) -> None:
        """Take the answer to a step; the commit goes out behind the last one."""
        unit.pending -= 1
        self._commit_if_level(unit)

    def commit(self, unit: Unit, ticket: int) -> None:
        """Have a unit committed once all its steps are answered.

        Raises:
            RequestError: it is over.
        """
        unit.check()
        unit.ticket = ticket
        unit.error = RequestError(
            ErrorCode.UNIT_UNKNOWN, f"unit of work {unit.number} is being committed"
        )
        self._commit_if_level(unit)

    def _commit_if_level(self, unit: Unit) -> None:
        if unit.ticket and not unit.pending:
            self.ready.append(Commit(unit.ticket, "", b"", None, unit))
            unit.ticket = 0

    def committed(self, unit: Unit, result: PutResult | RequestError) -> None:
        """Take what became of a commit. Where it does not say that the unit is gone, it is open."""
        if isinstance(result, PutResult) or result.error_class is ErrorClass.UNKNOWN_OUTCOME:
            self.end(unit, over(unit), undone=False)
        elif result.code in _GONE or unit.number not in self._open:
            self.end(unit, backed_out(unit))
        else:
            unit.error = None

    def end(self, unit: Unit, error: RequestError, *, undone: bool = True) -> None:
        """Have a unit refuse further use with *error*."""
        self._open.pop(unit.number, None)
        unit.error, unit.is_over, unit.is_undone = error, True, undone
        self._refuse_commit(unit, error)

    def lost(self) -> None:
        """Take note that the connection is gone, and with it all units that were begun on it."""
        for commit in self.take_ready():
            self._events.append(PutDone(commit.ticket, backed_out(commit.unit)))
        for unit in [unit for unit in self._open.values() if unit.is_begun]:
            unit.is_lost = True
            self.end(unit, backed_out(unit))

    def fail(self, error: RequestError) -> None:
        """End every unit with *error*."""
        self._events += [PutDone(commit.ticket, error) for commit in self.take_ready()]
        for unit in list(self._open.values()):
            self.end(unit, error)

    def _refuse_commit(self, unit: Unit, error: RequestError) -> None:
        if unit.ticket:
            self._events.append(PutDone(unit.ticket, error))
            unit.ticket = 0


def outcomes(value: Any, uids: Sequence[Uid | None], origin: str) -> list[PutResult | RequestError]:
    """Return what became of each record of a UnitPut that is answered with *value*.

    Raises:
        FieldInvalid: the peer broke the protocol.
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


def backed_out(unit: Unit) -> RequestError:
    """Return what is said of a unit of which nothing was done."""
    text = f"unit of work {unit.number} was backed out: nothing of it is done"
    return RequestError(ErrorCode.UNIT_BACKED_OUT, text)


def over(unit: Unit) -> RequestError:
    """Return what is said of a unit that its caller ended."""
    text = f"unit of work {unit.number} is over: begin another one"
    return RequestError(ErrorCode.UNIT_UNKNOWN, text)
