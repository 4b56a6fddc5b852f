"""Tests that the hostile clients use every operation, and can break each invariant."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from tests.fuzz.hostile_maker import NAMES, OPERATIONS, HostileMaker, forged
from tests.process.hostile.__main__ import summary
from tests.process.hostile.attackers import KINDS, SECURED
from tests.process.hostile.campaign import Limits, Plan, Result, run
from tests.process.hostile.watch import SAMPLES_MIN, Watch


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.__name__)
def test_each_operation_can_be_generated_within_its_limits(kind: type[Any]) -> None:
    maker = HostileMaker(Random(7))
    for _ in range(50):
        array = unpack(pack(layout.to_array(maker.message(kind))))
        assert type(layout.parse(array)) is kind


@pytest.mark.parametrize("kind", [m.QueueDelete, m.QueuePurge, m.QueueAlter])
def test_attackers_destroy_only_their_own_objects(kind: type[Any]) -> None:
    maker = HostileMaker(Random(7))
    assert {maker.message(kind).queue for _ in range(100)} <= set(NAMES[:3])


def test_forged_handle_names_the_browsed_message() -> None:
    item = m.DELIVERY.pack(4, 17, 0, 0, 0, 0, 0) + bytes(30)
    guesses = {forged(Random(seed), item) for seed in range(100)}
    assert {m.HANDLE.unpack(guess)[:2] for guess in guesses} == {(4, 17)}
    assert len(guesses) > 20


def test_operation_that_overlaps_a_kill_is_not_counted() -> None:
    watch = Watch()
    watch.open("attack")
    before = watch.start("put")
    watch.disturb()
    during = watch.start("put")
    watch.settle()
    for mark in (before, during):
        watch.done(mark)
    assert watch.windows["attack"] == [[]]
    watch.done(watch.start("put"))
    assert len(watch.windows["attack"][0]) == 1
    assert watch.operations == 3


def test_ratio_is_that_of_the_medians_of_windows() -> None:
    watch = Watch()
    for calm_ms, attack_ms in ((1, 2), (1, 90), (9, 2)):  # One window of each kind is noise.
        watch.windows["calm"].append([float(calm_ms)] * SAMPLES_MIN)
        watch.windows["attack"].append([float(attack_ms)] * SAMPLES_MIN)
    assert watch.p99_ratio == 2.0
    assert watch.median_p99_ms("attack") == 2.0


@pytest.mark.parametrize(
    ("field", "value", "law"),
    [
        ("lost", 1, "lost"),
        ("doubled", 1, "doubled"),
        ("stolen", 1, "stolen"),
        ("let_in", 1, "let_in"),
        ("unexpected_exits", 1, "unexpected_exits"),
        ("turns_failed", 1, "turns_failed"),
        ("unsound", 1, "verify"),
        ("rss_max_mib", 257, "rss_max_mib"),
        ("p99_ratio", 2.1, "p99_ratio"),
        ("longest_stall_ms", 1_001.0, "longest_stall_ms"),
        ("operations", 0, "operations"),
    ],
)
def test_each_law_can_be_broken(field: str, value: float, law: str) -> None:
    result = Result(operations=10, p99_ms=101.0)
    assert result.broken(Limits()) == []
    setattr(result, field, value)
    assert result.broken(Limits()) == [law]
    assert "seed=9" in summary(result, 9, 1.0)


def test_every_kind_of_attacker_has_a_description() -> None:
    assert all(attack.__doc__ for attack in (KINDS | SECURED).values())


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
def test_short_campaign_finds_nothing(tmp_path: Path) -> None:
    """The campaign runs all kinds of attackers except those for full stores, and one kill.

    Its time limits are generous.
    """
    limits = Limits(p99_ratio=30, stall_ms=30_000)
    plan = Plan(
        acts=("few",),
        seconds=1,
        rounds_min=2,
        calm_s=1,
        attack_s=5,
        at_once=(11,),
        kills=0.5,
        limits=limits,
    )
    result = run(tmp_path, 1, plan)
    assert result.broken(limits) == [], summary(result, 1, 0)
    assert result.kills
    assert result.counts.keys() == KINDS.keys() - {"fill"}


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
def test_short_campaign_against_tls_and_users_finds_nothing(tmp_path: Path) -> None:
    limits = Limits(p99_ratio=30, stall_ms=30_000)
    plan = Plan(
        acts=("secured",),
        seconds=1,
        rounds_min=2,
        calm_s=1,
        attack_s=5,
        at_once=(len(SECURED),),
        kills=0.5,
        limits=limits,
    )
    result = run(tmp_path, 1, plan)
    assert result.broken(limits) == [], summary(result, 1, 0)
    assert result.counts.keys() == SECURED.keys()
