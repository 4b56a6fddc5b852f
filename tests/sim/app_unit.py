"""The units of work, one at a time, of an application that uses the production client."""

from typing import TYPE_CHECKING, Any

from qmgr_client.errors import ConnectionEnded, UnknownOutcome
from qmgr_client.sansio.events import PutDone, RequestDone, RequestFailed, SettleDone
from qmgr_client.sansio.units import Unit as ClientUnit
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError, name_of
from tests.sim import producer
from tests.sim.ledger import Unit, described, require

if TYPE_CHECKING:
    from tests.sim.app import App

STEPS_MAX = 4
_REFUSALS = {
    "UNIT_BACKED_OUT",
    "UNIT_INCOMPLETE",
    "UNIT_UNKNOWN",
    "STORE_FULL",
    "PRODUCERS_EXHAUSTED",
}


class AppUnits:
    """Runs units of work. Invariant: while ``waits`` has open requests, no message is sent."""

    def __init__(self, app: "App", total: int) -> None:
        self.app = app
        self.total = total
        self.unit: Unit | None = None
        self._own: ClientUnit | None = None  # the unit object of the client
        self.waits: dict[int, tuple[str, Any]] = {}
        self.by_number: dict[int, Unit] = {}
        self._steps = 0
        self._made = 0

    @property
    def done(self) -> bool:
        """True if no unit is open."""
        return self.unit is None and not self.waits

    def act(self) -> None:
        """Performs the next step of a unit, or begins one."""
        app = self.app
        if self.waits or not app.core.is_open:
            return
        try:
            if self.unit is not None and self._own is not None:
                self._step(self.unit, self._own)
            elif self._made < self.total:
                self._begin()
        except RequestError:
            self._over("lost")

    def _begin(self) -> None:
        app = self.app
        self._made += 1
        self._steps = app.lab.random.randint(0, STEPS_MAX)
        begun_ms = app.lab.nodes[app.where].now().ms
        name, source = f"{app.life}.{self._made}", app.reading.queue
        self.unit = Unit(name, app.where, source, begun_ms)
        app.lab.ledger.units.append(self.unit)
        self.waits[app.core.begin_unit()] = ("begin", None)

    def _step(self, unit: Unit, own: ClientUnit) -> None:
        app, random = self.app, self.app.lab.random
        if self._steps == 0:
            if random.random() < 0.2:
                unit.ending = True
                self.waits[app.core.back_out(own)] = ("backout", None)
            else:
                self.waits[app.core.commit(own)] = ("commit", unit)
            return
        self._steps -= 1
        if app.held and random.random() < 0.6:
            message = app.held.pop(0).message
            # After a lost connection, the message may have another lease.
            _, arrival, lease = m.HANDLE.unpack(app.core.handle_of(message))
            view = app.lab.watch.views[app.where]
            view.offer((message.queue_id, arrival), lease, unit)
            leased = message.queue_id, arrival, lease
            self.waits[app.core.settle(message, m.ACK, unit=own)] = ("get", leased)
            return
        queue = random.choice(app.producing.queues)
        puts = [
            producer.new_put(app.lab, app.producing, f"{app.life}/u", app.where, queue, unit)
            for _ in range(random.randint(1, 3))
        ]
        records = [(put.record, put.uid) for put in puts]
        self.waits[app.core.unit_put(own, queue, records)] = ("put", puts)

    def heard(self, message: m.Message, producer_id: bytes) -> None:
        """Records the number and id of each unit, from the frames that the client sends."""
        if type(message) is m.UnitBegin and self.unit is not None:
            self.by_number[message.unit] = self.unit
        elif type(message) is m.UnitCommit:
            unit = self.by_number[message.unit]
            unit.ending = unit.committing = True
            self.app.lab.ledger.commits(unit, producer_id, message.seq_id)

    def takes(self, event: Any) -> bool:
        """Handles *event* if it is the result of a step; returns whether it was handled."""
        if type(event) not in (RequestDone, RequestFailed, PutDone, SettleDone):
            return False
        found = self.waits.pop(event.ticket, None)
        if found is None:
            return False
        what, about = found
        error = getattr(event, "error", None)
        if what == "commit":
            self._committed(about, event.result)
        elif what == "put" and error is None:
            self._held(about, event.value)
        elif what == "get" and error is None:
            self._got(about)
        elif what == "begin" and error is None:
            self._own = event.value
        elif what in ("begin", "backout"):
            self._over("backed out" if what == "backout" else "lost")
        return True

    def _held(self, puts: list[Any], results: list[Any]) -> None:
        for put, result in zip(puts, results, strict=True):
            if isinstance(result, RequestError):
                self.app.lab.ledger.answered(put, name_of(result.code))
            elif self.unit is not None:
                self.unit.puts.append(put)

    def _got(self, leased: tuple[int, int, int]) -> None:
        queue_id, arrival, lease = leased
        if self.unit is None:
            return
        self.unit.gets[queue_id, arrival] = lease
        handed = self.app.lab.watch.views[self.app.where].handed.get((queue_id, arrival))
        if handed is not None and handed.lease == lease:
            handed.unit = self.unit

    def _committed(self, unit: Unit, result: Any) -> None:
        ledger, happened = self.app.lab.ledger, self.app.lab.watch.happened
        self.unit = self._own = None
        unit.ending = True
        if isinstance(result, UnknownOutcome | ConnectionEnded):
            return
        if isinstance(result, RequestError):
            code = name_of(result.code)
            require(code in _REFUSALS, "refusals_have_a_cause", f"{described(unit)}: {code}")
            ledger.answered(unit, code)
            happened["units refused"] += 1
            return
        ledger.answered(unit, "acked")
        for put in unit.puts:
            if not put.entered and put.lives_ms:
                put.strayed = "expired"  # The message expired in the turn of the commit, unseen.
            ledger.answered(put, "acked")
        happened["units committed"] += 1
        happened["units over queues"] += bool(unit.puts and unit.gets)

    def lost(self) -> None:
        """Records that the connection is lost, or that the program has died."""
        if self.unit is not None:
            self.unit.ending = True

    def _over(self, how: str) -> None:
        if self.unit is not None:
            self.unit.ending, self.unit.answer = True, how
            self.app.lab.watch.happened[f"units {how}"] += 1
        self.unit = self._own = None
