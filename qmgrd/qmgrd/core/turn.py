"""Runs turns: applies all waiting messages in one transaction, then sends the replies.

    intake ──▶ broker, in order, inside ONE write transaction ──▶ store: durable ──▶ Outcome

Only this module enforces the main rule of qmgrd: no part of an outcome leaves the process before
the turn, and all turns before it, are durable. Group commit, batching and order follow from this
rule. While the store writes a turn to a slow disk, later turns may run. Their outcomes wait.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.boot import Boot, boot
from qmgrd.core.context.context import Outcome
from qmgrd.core.intake import Intake
from qmgrd.core.layout.kv import Now, Store
from qmgrd.core.limits.budget import ClockNs, frozen_clock
from qmgrd.core.limits.room import settle_handles
from qmgrd.core.limits.timers import earliest_ms
from qmgrd.core.limits.unread_replies import Made
from qmgrd.core.limits.work import WorkId
from qmgrd.core.requests.set_aside import set_aside
from qmgrd.core.sessions.connection import ConnectionFacts, no_facts
from qmgrd.core.sessions.session_token import SessionTokens


class TurnFailed(Exception):
    """A turn failed because of a bug.

    The turn is rolled back, and the broker must be discarded.
    """

    def __init__(self, connection: int, cause: Exception, work: WorkId | None = None) -> None:
        where = f"while working on {work}" if work else f"while serving connection {connection}"
        super().__init__(f"{type(cause).__name__} {where}: {cause}")
        self.connection = connection
        self.work = work  # the work that failed, or None if it is unknown
        self.why = f"{type(cause).__name__}: {cause}"


class Turns:
    """Runs a broker on a store, turn by turn.

    Invariant: between two turns, the broker's memory agrees with the store. ``_outcomes`` has the
        outcomes of turns that may not be durable yet, with the numbers of their records and the
        bytes that they made. After TurnFailed, or any error of a commit, create a new object from
        the store. Therefore, a recovery always runs the same code as a start.
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
        clock_ns: ClockNs = frozen_clock,
        unsent_of: Callable[[int], int] = lambda connection: 0,
        *,
        is_maintenance: bool = False,
    ) -> None:
        """Starts a queue manager from *store*, which gets a new boot number.

        Args:
            now_of: A function that computes the time of the start from the stored state of the last
                run.
            new_id: 16 random bytes, different at each start.
            new_secret: 32 random bytes, for a store that has no secret yet.
            facts: A function that returns the fields that the shell adds to a status reply.
            facts_of: A function that returns the fields that the shell adds to the row of a
                connection.
            clock_ns: The clock that limits a turn to limits.turn_ms.
            unsent_of: A function that returns the bytes that the peer of a connection has not read.
            is_maintenance: Whether the daemon only serves requests.

        Raises:
            StoreForeign: The store belongs to another queue manager.
            RowDamaged: A row of the store is damaged.
            StoreFailed: The store is full, or its disk failed.
        """
        self._limits = config.limits
        self._store = store
        self._outcomes: deque[tuple[int, Outcome, Made]] = deque()
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
        self.broker.context.unread_replies.unsent_of = unsent_of
        self.intake = Intake(
            settle_handles(config.store),
            self.broker.context.unread_replies,
            config.limits.buffers_max_bytes // 2,
            self.broker.context.put_rates,
        )
        self.broker.streams.puts.charge = self.intake.charge
        self.notes = self.broker.take_notes()  # the notes of the start, for the log

    @property
    def has_work(self) -> bool:
        """Whether there is work for a turn now."""
        return bool(self.intake) or self.broker.busy

    def next_timer_ms(self) -> int | None:
        """Returns the store clock time at which the next turn is due, or None."""
        intake = self.intake
        return earliest_ms(
            self.broker.next_timer_ms(), intake.next_put_ms(), intake.next_count_ms()
        )

    def run_ahead(self, now: Now) -> None:
        """Runs one turn. :meth:`take_durable` returns its outcome once the turn is durable.

        Raises:
            TurnFailed: The turn failed because of a bug. None of its changes was stored. Earlier
                turns whose outcomes wait may be lost as well.
            StoreFailed: The store failed. Whether the changes were stored is unknown.
        """
        outcome = self._apply(now)
        made = self.broker.context.unread_replies.end_turn()
        self._outcomes.append((self._store.commit_soon(), outcome, made))

    def take_durable(self) -> Iterator[Outcome]:
        """Yields the outcomes that may leave the process, because their turns are durable."""
        outcomes = self._outcomes
        while outcomes and outcomes[0][0] <= self._store.durable:
            _, outcome, made = outcomes.popleft()
            yield outcome
            self.intake.left(made)

    def settle(self) -> Iterator[Outcome]:
        """Makes all turns durable, and yields their outcomes.

        Raises:
            StoreFailed: The store failed. Whether the changes were stored is unknown.
        """
        self._store.settle()
        return self.take_durable()

    def run(self, now: Now) -> Outcome:
        """Runs one turn, and returns its outcome after the turn is durable.

        Raises:
            TurnFailed, StoreFailed: See :meth:`run_ahead`.
        """
        assert not self._outcomes, "earlier outcomes must leave first"
        outcome = self._apply(now)
        self._store.commit()
        self.intake.left(self.broker.context.unread_replies.end_turn())
        return outcome

    def _apply(self, now: Now) -> Outcome:
        broker, connection, puts = self.broker, 0, self.broker.streams.puts
        limits, budget = self._limits, broker.context.budget
        budget.begin()
        self.intake.begin_turn(now.ms)
        tx = self._store.begin()
        try:
            broker.begin(tx, now, self._store)
            context = broker.context
            arrivals = self.intake.take(limits.turn_requests, limits.turn_bytes, budget)
            try:
                for connection, (message, event, _) in arrivals:
                    context.working = None
                    if type(message) is not m.Put:
                        puts.store_waiting()
                    if message is not None:
                        broker.received(connection, message)
                    elif event is not None:
                        event(broker)
                    if context.rows > context.turn_rows:
                        break
            finally:  # Otherwise, the rest of the turn would be charged to the last connection.
                arrivals.close()
            connection, context.working = 0, None
            puts.store_waiting()
            return broker.end()
        except Exception as error:
            self._store.abort()
            guilty = 0 if puts.is_storing else connection
            failed = TurnFailed(guilty, error, broker.context.working)
            raise self._store.failure(error) or failed from error

    def set_aside(self, work: WorkId, why: str, now: Now, *, is_mark: bool) -> Outcome:
        """Sets *work* aside in a turn that does no other work. Returns the notes to log.

        Args:
            work: The work that failed too often.
            why: The reason for its last failure.
            now: The time of the turn.
            is_mark: Whether to only mark *work*, so that later turns skip it.

        Raises:
            TurnFailed: Setting the work aside failed as well. Create a new core.
            StoreFailed: The store failed.
        """
        broker = self.broker
        tx = self._store.begin()
        try:
            broker.begin(tx, now, self._store)
            set_aside(broker.services, work, why, is_mark=is_mark)
            outcome = broker.write_changes()
        except Exception as error:
            self._store.abort()
            raise self._store.failure(error) or TurnFailed(0, error) from error
        self._store.commit()
        return outcome

    def stop(self, now: Now) -> list[Outcome]:
        """Runs the last turns, after all outcomes have left.

        They close connections, end leases and mark the store as cleanly closed.
        """
        self.intake.event(0, lambda broker: broker.shutdown())
        outcomes = [self.run(now)]
        while self.broker.settlements.busy:
            outcomes.append(self.run(now))
        self.intake.event(0, lambda broker: broker.mark_clean())
        outcomes.append(self.run(now))
        return outcomes
