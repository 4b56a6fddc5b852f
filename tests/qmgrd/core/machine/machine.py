"""Rules for all operations on queues, which run on the production core and on a plain model.

chances ─▶ rules (puts, gets, settles, unit_rules, operators, group_rules, time) ─▶ bench ─▶ model
                                                                                       └▶ manager
"""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from tests.qmgrd.core.machine.chances import NUMBERS, SEAT_NUMBERS
from tests.qmgrd.core.machine.group_rules import GroupRules
from tests.qmgrd.core.machine.message import Selection
from tests.qmgrd.core.machine.operators import Operators
from tests.qmgrd.core.machine.seat import Handle
from tests.qmgrd.core.machine.unit_rules import Units


class Machine(Units, Operators, GroupRules):
    """Three clients, a queue, its backout queue, the dead-letter queue, time and restarts."""

    @rule(ms=st.sampled_from([1, 50, 260, 500, 999, 1_000, 1_700, 2_500]))
    def time_passes(self, ms: int) -> None:
        self._time_passes(ms)

    @rule(ms=st.sampled_from([10_000, 21_000, 70_000, 3_600_000]))
    def much_time_passes(self, ms: int) -> None:
        self._time_passes(ms)

    def _time_passes(self, ms: int) -> None:
        """Lets time pass, and runs a turn just before and at the end of each wait of a get.

        In a single turn, a get would check the queue before delays end, even those that ended
        earlier.
        """
        left_ms = ms
        while left_ms:
            model = self.bench.begin()
            waits = [x.until_ms - model.now_ms for x in model.waiters if x.until_ms is not None]
            step_ms = min([left_ms, *(max(wait_ms - 1, 1) for wait_ms in waits)])
            model.now_ms += step_ms
            model.groups.now_ms = model.now_ms
            model.wall_us = max(self.bench.manager.wall_us + 1_000 * step_ms, 0)
            model.time_passes()
            self.bench.run(step_ms)
            self.bench.end()
            left_ms -= step_ms

    def _mortal(self) -> list[Handle]:
        """Returns the handles of leased messages that will expire soon."""
        soon_ms = self.bench.manager.now().ms + 3_000
        return [
            x
            for x in self.bench.handles
            if x.message in self.model.messages
            and x.message.lease is not None
            and x.message.lease.number == x.delivery.number
            and self.bench.manager.now().ms < x.message.expires_ms <= soon_ms
        ]

    @precondition(lambda self: self._mortal())
    @rule(number=NUMBERS, seat=SEAT_NUMBERS, crashes=st.booleans())
    def what_is_held_expires(self, number: int, seat: int, crashes: bool) -> None:
        """G12: No consumer receives a message that expired during its lease."""
        handle = self._mortal()[number % len(self._mortal())]
        self._time_passes(handle.message.expires_ms - self.bench.manager.now().ms + 100)
        if crashes:
            self.crash(0)
        else:
            self._settle(self._holder(handle), m.RETURN, handle)
        self._get(self._seat(seat), handle.message.queue, 5, 0, 500, Selection())

    @precondition(lambda self: self._mortal())
    @rule(number=NUMBERS, seat=SEAT_NUMBERS)
    def what_is_lost_has_expired(self, number: int, seat: int) -> None:
        """G12: a waiting consumer does not receive the message after its holder disconnects."""
        handle = self._mortal()[number % len(self._mortal())]
        lease = handle.message.lease
        assert lease is not None
        self._get(self._seat(seat), handle.message.queue, 5, 5_000, 500, Selection())
        self._time_passes(handle.message.expires_ms - self.bench.manager.now().ms + 100)
        if handle.message.lease is lease:
            self.hang_up(lease.seat)

    @rule(years=st.sampled_from([-20, -1, 1, 10]))
    def wall_clock_jumps(self, years: int) -> None:
        """A jump of the wall clock makes nothing due."""
        self.bench.manager.wall_us += years * 365 * 24 * 3_600_000_000
        self.bench.wall_jumped = True
        self.bench.begin()
        self.bench.run()
        self.bench.end()

    @rule(seat=SEAT_NUMBERS, resumes=st.booleans())
    def hang_up(self, seat: int, resumes: bool = True) -> None:
        found = self._seat(seat)
        self.bench.begin()
        self.model.hang_up(seat)
        self.model.sweep()
        found.client.hang_up()
        self.bench.run()
        self.bench.come_back(found, resumes=resumes)
        self.bench.end()

    @rule(away_ms=st.sampled_from([0, 0, 400, 5_000, 7_200_000]), resumes=st.booleans())
    def crash(self, away_ms: int, resumes: bool = True) -> None:
        self.bench.begin()
        self.bench.restart(away_ms, is_clean=False, resumes=resumes)
        self.bench.end()

    @rule(away_ms=st.sampled_from([0, 0, 400, 5_000, 7_200_000]), resumes=st.booleans())
    def restart(self, away_ms: int, resumes: bool = True) -> None:
        self.bench.begin()
        self.bench.restart(away_ms, is_clean=True, resumes=resumes)
        self.bench.end()
