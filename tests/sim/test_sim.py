"""Tests of a few seeds. `make sim` and `make soak` run more seeds."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.sim.run import FEATURES, main, run_seed, world_of
from tests.sim.world import World

REPO = Path(__file__).parent.parent.parent

# Each seed once found a bug in the core or the simulator. A change of either may change what
# happens with a seed. Therefore each bug also has a separate test, usually in test_found.py.
REGRESSIONS = (
    # A welcome was sent on a connection that was closed by a goodbye right after the hello:
    # test_goodbye_right_after_a_hello_ends_the_connection.
    0,
    # After a crash and a clean stop, a possible redelivery was flagged "no":
    # test_maybe_survives_a_clean_stop.
    10,
    # A late Blocked, on a connection that was given up, left the link up without a connection:
    # test_late_data_of_a_given_up_connection_is_ignored.
    403,
    # A late opening fenced the newer connection, and permanently ended its client:
    # test_late_opening_does_not_fence_a_newer_connection.
    1040,
    # A commit was sent on an older connection, and the sender waited for ever:
    # test_commit_id_is_sent_on_the_connection_that_took_over.
    10_718,
    # A producer that was opened and removed in the turn of the retention was counted as removed:
    # test_producer_that_comes_and_goes_in_the_turn_of_the_retention_is_counted.
    100_573,
    # Each retry of a blocked link sent another window, beyond the limit of its peer:
    # test_link_blocked_repeatedly_keeps_within_the_put_window_of_a_slow_peer.
    101_478,
    # A request to stop a link arrived late, over a connection that was given up long before, and no
    # operator started the link again.
    1_792,
    # A message that was lost at a restart after it had crossed its link was counted twice:
    # test_what_is_gone_with_a_restart_is_counted_once_though_the_peer_holds_it.
    1_560,
    # The test expected the messages in order on a queue with inhibited puts, but a link continues
    # after refused puts.
    2_008,
    # A commit covers a resent message before the peer has accepted that message:
    # test_commit_of_what_is_sent_again_leaves_the_put_window_of_the_peer_whole (test_link.py).
    7_501,
    # A request to give a link a wrong address arrived late, and no operator corrected the address.
    10_622,
    # The first turn of each of eleven starts was counted as a spin.
    19_491,
    # A job of a group that continued after a restart also counted lost members as expired:
    # test_what_is_lost_of_a_group_that_expires_is_counted_once (test_sweep.py).
    2_393,
)

# Together, these seeds use every feature. If a change of the core alters this, try other seeds.
MANY_FEATURES = (612, 207, 204, 472, 229, 236, 219, 226, 210)


@pytest.mark.long  # `make check` simulates other seeds
@pytest.mark.parametrize("seed", range(1, 9))
def test_seed_breaks_no_law(seed: int) -> None:
    """B16, B17: Each message is consumed once, regardless of failures at either end."""
    result = run_seed(seed)
    assert not result.failure, result.failure


@pytest.mark.long
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_seed_that_found_a_bug_breaks_no_law(seed: int) -> None:
    World(seed).run()


def test_same_seed_leaves_the_same_bytes() -> None:
    first, second = World(20, steps=1_500), World(20, steps=1_500)
    first.run()
    second.run()
    assert first.digest() == second.digest()
    assert (first.now_ms, first.hits) == (second.now_ms, second.hits)


def test_other_seed_leaves_other_bytes() -> None:
    first, second = World(20, steps=500), World(21, steps=500)
    first.run()
    second.run()
    assert first.digest() != second.digest()


@pytest.mark.process
def test_bytes_do_not_depend_on_the_hashes_of_the_process() -> None:
    program = (
        "from tests.sim.world import World; w = World(20, steps=500); w.run(); print(w.digest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=REPO,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": number},
        ).stdout
        for number in ("1", "2")
    }
    assert len(digests) == 1


def test_each_kind_of_fault_strikes_often_enough() -> None:
    """Each kind of fault occurs in at least one of twelve seeds."""
    hit: set[str] = set()
    for seed in range(100, 112):
        world = world_of(seed, steps=1_000)
        for _ in range(world.steps_max):
            world.step()
        hit |= set(world.hits)
    kinds = {"cut", "half open", "dark", "clog", "crash", "stop", "turn fails", "restore"}
    missing = kinds - hit
    assert not missing


@pytest.mark.long
def test_each_feature_occurs() -> None:
    """A few seeds must use all features, because a feature that is not used is not checked."""
    met: Counter[str] = Counter()
    for seed in dict.fromkeys((*MANY_FEATURES, *range(200, 280))):
        met += run_seed(seed, steps=2_000).sums
        if all(met[name] for name in FEATURES):
            return
    assert not [name for name in FEATURES if not met[name]]


def test_command_line_prints_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", "--seeds", "2", "--start", "7", "--steps", "300", "--jobs", "1"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("sim: 2 seeds in ")


def test_failure_names_seed_and_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmgrd.core.queue.settle.ack_all", lambda *arguments: [])
    monkeypatch.setattr(sys, "argv", ["run", "--seeds", "1", "--start", "8", "--jobs", "1"])
    assert main() == 1
    report = capsys.readouterr().err
    assert report.startswith("seed=8 step=")
    assert "settled_is_durable" in report
