"""The turn: everything that has arrived becomes one transaction, then the answers leave.

    intake ──▶ broker, in order, inside ONE write transaction ──▶ store.commit() ──▶ Outcome

This is the one place where the rule of the house holds: nothing of an outcome is handed to anybody
before the commit that it stems from has returned. Group commit, batching and order follow from it.
"""

from collections.abc import Callable
from typing import Any

from qmgr_config.model import Config
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.boot import Boot, boot
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout.kv import Now, Store
from qmgrd.core.limits.budget import ClockNs, still
from qmgrd.core.limits.room import settle_handles
from qmgrd.core.limits.work import Work
from qmgrd.core.requests.set_aside import set_aside
from qmgrd.core.sessions.connection import ConnectionFacts, no_facts
from qmgrd.core.sessions.intake import Intake
from qmgrd.core.sessions.session_token import SessionTokens


class TurnFailed(Exception):
    """A bug met while a turn was open. The turn is undone, the broker is spent."""

    def __init__(self, connection: int, cause: Exception, work: Work | None = None) -> None:
        where = f"at work on {work}" if work else f"while serving connection {connection}"
        super().__init__(f"{type(cause).__name__} {where}: {cause}")
        self.connection = connection
        self.work = work  # what failed, where it has a name
        self.why = f"{type(cause).__name__}: {cause}"


class Turns:
    """A broker on a store, driven turn by turn.

    Invariant: between two calls of :meth:`run` no transaction is open, and what the store holds is
    what the broker says. After TurnFailed, or whatever a commit raises, make a new one from the
    store: recovery is always the start-up path.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        now_of: Callable[[Boot], Now],
        new_id: bytes,
        new_secret: bytes,
        facts: Callable[[], dict[str, Any]] = dict,
        facts_of: ConnectionFacts = no_facts,
        clock_ns: ClockNs = still,
        *,
        is_maintenance: bool = False,
    ) -> None:
        """Start a queue manager from *store*, which gets a new boot number.

        Args:
            now_of: returns the time of the start, given what the store knows of the last run.
            new_id: 16 random bytes, another 16 at each start.
            new_secret: 32 random bytes, for a store that has no secret yet.
            facts: what a status adds.
            facts_of: what the row of a connection adds.
            clock_ns: the clock by which a turn has no more than limits.turn_ms.
            is_maintenance: whether it only does what it is asked.

        Raises:
            StoreForeign: the store is not this queue manager's.
            RowDamaged: a row of it rotted.
            StoreFailed: the store is full, or its disk failed.
        """
        self._limits = config.limits
        self._store = store
        tx = store.begin()
        try:
            manager = config.queue_manager
            is_named = "name" in manager.model_fields_set
            self.boot = boot(tx, manager.name, new_id, new_secret, is_named=is_named)
            self.tokens = SessionTokens(self.boot.secret, self.boot.salt)
            self.broker = Broker(
                config,
                self.boot,
                tx,
                now_of(self.boot),
                facts,
                facts_of,
                clock_ns,
                is_maintenance=is_maintenance,
            )
        except BaseException as error:
            store.abort()
            failure = store.failure(error)
            if failure is not None:
                raise failure from error
            raise
        store.commit()
        self.intake = Intake(
            settle_handles(config.store),
            self.broker.context.outflow,
            config.limits.buffers_max_bytes // 2,
        )
        self.notes = self.broker.take_notes()  # of the start, to be logged

    @property
    def wanted(self) -> bool:
        """Whether there is work for a turn right now."""
        return bool(self.intake) or self.broker.busy

    def run(self, now: Now) -> Outcome:
        """Run one turn; return what may leave the process, now that the turn is durable.

        Raises:
            TurnFailed: a bug; nothing of this turn happened.
            StoreFailed: the store took no more; whether the turn happened is not known.
        """
        outcome = self._apply(now)
        self._store.commit()
        self.intake.end_turn()
        return outcome

    def _apply(self, now: Now) -> Outcome:
        broker, connection = self.broker, 0
        limits, budget = self._limits, broker.context.budget
        budget.begin()
        tx = self._store.begin()
        try:
            broker.begin(tx, now, self._store.space())
            context = broker.context
            arrivals = self.intake.take(limits.turn_requests, limits.turn_bytes, budget)
            try:
                for connection, (message, event, _) in arrivals:
                    context.working = None
                    if event is None:
                        broker.received(connection, message)
                    else:
                        event(broker)
                    if context.rows > context.turn_rows:
                        break
            finally:  # Else the rest of the turn would count as used by the last connection.
                arrivals.close()
            connection, context.working = 0, None
            return broker.end()
        except Exception as error:
            self._store.abort()
            failed = TurnFailed(connection, error, broker.context.working)
            raise self._store.failure(error) or failed from error

    def set_aside(self, work: Work, why: str, now: Now, *, is_mark: bool) -> Outcome:
        """Set *work* aside, in a turn of its own, which does nothing else; return what to log.

        Args:
            work: what failed too often.
            why: the last time.
            now: of the turn.
            is_mark: whether nothing is done but to have *work* passed over from here on.

        Raises:
            TurnFailed: that failed, too; make a new core.
            StoreFailed: the store took no more.
        """
        broker = self.broker
        tx = self._store.begin()
        try:
            broker.begin(tx, now, self._store.space())
            set_aside(broker, work, why, is_mark=is_mark)
            outcome = broker.end_alone()
        except Exception as error:
            self._store.abort()
            raise self._store.failure(error) or TurnFailed(0, error) from error
        self._store.commit()
        return outcome

    def stop(self, now: Now) -> list[Outcome]:
        """Run the last turns: say goodbye, bring leases back, mark the store as cleanly left."""
        self.intake.event(0, lambda broker: broker.shutdown())
        outcomes = [self.run(now)]
        while self.broker.settlements.busy:
            outcomes.append(self.run(now))
        self.intake.event(0, lambda broker: broker.mark_clean())
        outcomes.append(self.run(now))
        return outcomes
