"""Runs the machine for about a minute, and checks that the machine finds planted bugs."""

from collections.abc import Callable
from typing import Any

import pytest

from qmgrd.core.layout import entry as entries
from qmgrd.core.queue import seek, settle, take
from qmgrd.core.queue.dedup import OriginTable, UidVerdict
from qmgrd.core.queue.group.groups import Groups
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.core.queue.lease import Lease, Lessee
from qmgrd.core.queue.lease_number import LeaseNumbers
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns import returns
from tests.qmgrd.core.machine.machine import Machine
from tests.qmgrd.core.machine.run import run_seed

RULES_MIN = 30
SEEDS = range(1, 91)
QUICK = 2  # number of seeds that `make quick` runs
SHORT = 8  # number of seeds that `make test` runs; `make long` runs all
Patch = pytest.MonkeyPatch


def marks(seed: int) -> list[pytest.MarkDecorator]:
    """Returns the marks that exclude *seed* from the shorter runs."""
    return [pytest.mark.slow] * (seed > QUICK) + [pytest.mark.long] * (seed > SHORT)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=marks(seed)) for seed in SEEDS])
def test_queues_match_the_model(seed: int) -> None:
    """A11, A12, G12, G13, G20, G21, G22, G23. `run.py --start` reduces a failure to fewer rules."""
    assert not run_seed(seed, shrink=False)


def test_there_are_enough_rules() -> None:
    found = [getattr(Machine, name) for name in dir(Machine)]
    assert sum(hasattr(one, "hypothesis_stateful_rule") for one in found) >= RULES_MIN


def what_comes_back_is_passed_over(patch: Patch) -> None:
    patch.setattr(Queue, "lower_position", lambda *_: None)


def what_has_expired_is_handed_out(patch: Patch) -> None:
    for module in (take, seek):
        patch.setattr(module, "is_available", lambda *_: True)


def a_commit_forgets_all_gets_but_one(patch: Patch) -> None:
    consume = settle.consume

    def forgetful(queue: Queue, tx: Any, now: Any, lease: Lease) -> None:
        if lease.lessee.is_unit and len(lease.lessee.leases) > 1:
            queue.end(lease)
            return
        consume(queue, tx, now, lease)

    patch.setattr(settle, "consume", forgetful)


def a_retry_does_not_wait(patch: Patch) -> None:
    patch.setattr(returns, "_delay_ms", lambda *_: 0)


def failures_are_not_counted(patch: Patch) -> None:
    patch.setattr(entries, "raised_count", lambda count, by: count)


def duplicates_are_taken(patch: Patch) -> None:
    patch.setattr(OriginTable, "check_uid", lambda *_: UidVerdict.SLOW)


def what_is_parked_is_handed_out(patch: Patch) -> None:
    patch.setattr(seek, "_is_stopped", lambda *_: False)


def what_left_comes_again(patch: Patch) -> None:
    patch.setattr(GroupRow, "has_left", lambda *_: False)


def a_whole_group_of_two_stays_parked(patch: Patch) -> None:
    def is_rest_here(row: GroupRow) -> bool:
        return 0 < row.last == row.count + row.waiting + row.left_count < 2

    patch.setattr(GroupRow, "is_rest_here", property(is_rest_here))


def what_expired_left_for_good(patch: Patch) -> None:
    leave = Groups.leave

    def leave_for_good(self: Any, *args: Any, for_good: bool) -> bool:
        del for_good
        return leave(self, *args, for_good=True)

    patch.setattr(Groups, "leave", leave_for_good)


def sessions_settle_for_each_other(patch: Patch) -> None:
    patch.setattr(Lessee, "is_of", lambda *_: True)


def any_number_settles_what_waits(patch: Patch) -> None:
    patch.setattr(LeaseNumbers, "proves", lambda *_: True)


def no_number_settles_what_waits(patch: Patch) -> None:
    patch.setattr(LeaseNumbers, "proves", lambda *_: False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        what_comes_back_is_passed_over,
        *(
            pytest.param(plant, marks=pytest.mark.long)
            for plant in (
                what_has_expired_is_handed_out,
                a_commit_forgets_all_gets_but_one,
                a_retry_does_not_wait,
                failures_are_not_counted,
                duplicates_are_taken,
                what_is_parked_is_handed_out,
                what_left_comes_again,
                a_whole_group_of_two_stays_parked,
                what_expired_left_for_good,
                sessions_settle_for_each_other,
                any_number_settles_what_waits,
                no_number_settles_what_waits,
            )
        ),
    ],
)
def test_planted_bug_is_found_within_a_minute(
    plant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    assert any(run_seed(number, shrink=False) for number in SEEDS)
