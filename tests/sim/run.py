"""Runs simulated networks and prints one line: python -m tests.sim.run --seeds 200.

    --start S      the first seed        --minutes M      stop after this time

If an invariant is broken, the exit code is 1. The output shows `seed=... step=...` and the last
events. To repeat the failure, run the same command with --start set to that seed and --seeds 1.
"""

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count, islice
from typing import NamedTuple

from tests.sim.chance import Chance
from tests.sim.net import Net
from tests.sim.topics import TopicWorld
from tests.sim.world import STEPS, World

TWICE_EVERY = 20  # one in this many seeds runs twice, to check that both runs leave the same bytes
NET_EVERY = 4  # one in this many seeds is a net, with several hops and restored stores
BESIEGED_EVERY = 3  # one in this many seeds also has hostile clients
# one in this many seeds has users with rights that change. None of them has hostile clients, which
# may do everything, because those could change the rights as well.
GUARDED_EVERY = 6
TOPICS_EVERY = 5  # one in this many seeds publishes and subscribes


class Result(NamedTuple):
    """The result of one seed."""

    seed: int
    failure: str
    sums: Counter[str]
    hit: set[str]  # kinds of faults that occurred


def run_seed(seed: int, steps: int = STEPS) -> Result:
    """Runs one seed, and sometimes repeats it to compare the bytes."""
    world: Chance | None = None
    try:
        world = world_of(seed, steps)
        world.run()
        if seed // NET_EVERY % TWICE_EVERY == 0:
            again = world_of(seed, steps)
            again.run()
            if world.digest() != again.digest():
                return _result(world, seed, "same_seed_same_bytes: two runs differ")
    except Exception as error:
        return _result(world, seed, describe(error))
    return _result(world, seed, "")


def world_of(seed: int, steps: int = STEPS) -> Chance:
    """Returns the world of *seed*. Nets and worlds of topics have half the steps."""
    world = _world_of(seed, steps)
    world.is_besieged = seed % BESIEGED_EVERY == BESIEGED_EVERY - 1
    world.is_guarded = seed % GUARDED_EVERY == 3
    return world


def _world_of(seed: int, steps: int) -> Chance:
    if seed % TOPICS_EVERY == TOPICS_EVERY - 1:
        return TopicWorld(seed, steps=steps // 2)
    if seed % NET_EVERY == NET_EVERY - 1:
        return Net(seed, steps=steps // 2)
    return World(seed, steps=steps)


def describe(error: Exception) -> str:
    """Returns the description of a failure, with its location if it is a bug in the core."""
    text = f"{type(error).__name__}: {error}"
    if error.__cause__ is not None:
        text += "\n" + "".join(traceback.format_exception(error.__cause__)[-8:])
    return text


def _result(world: Chance | None, seed: int, failure: str) -> Result:
    if world is None:
        return Result(seed, failure, Counter(), set())
    if failure:
        events = "\n".join(
            f"  {now_ms:>12} ms  {who:8} {what}" for now_ms, who, what in world.trace
        )
        failure = f"seed={seed} step={world.steps}\n{events}\n{failure}"
    watch = world.watch
    own = Counter(steps=world.steps, ms=world.now_ms, puts=len(world.ledger.puts))
    sums = world.hits + own + watch.happened
    return Result(seed, failure, sums, {kind for kind in world.faults if world.hits[kind]})


def results(seeds: Iterator[int], jobs: int, steps: int, deadline: float) -> Iterator[Result]:
    """Yields the result of each of *seeds*, until all are done or the time has passed."""
    if jobs == 1:
        for seed in seeds:
            yield run_seed(seed, steps)
            if time.monotonic() > deadline:
                return
        return
    with ProcessPoolExecutor(jobs) as pool:
        running: set[Future[Result]] = set()
        while True:
            if time.monotonic() < deadline:
                for seed in islice(seeds, 4 * jobs - len(running)):
                    running.add(pool.submit(run_seed, seed, steps))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


# Features of the workload, in addition to faults. Each must occur often enough to be tested.
FEATURES = (
    "units committed",
    "units backed out",
    "units lost",
    "units refused",
    "units over queues",
    "commits resent",
    "failures",
    "retries",
    "dead letters",
    "backout_threshold_reached",
    "delivery_limit_reached",
    "message_rejected",
    "message_expired",
    "queue_full",
    "moved back",
    "expired",
    "delayed",
    "lost",
    "pushed out",
    "selected",
    "renewed",
    "breaker opened",
    "groups ended",
    "members consumed",
    "groups parked",
    "handovers",
    "published",
    "parked",
    "republished",
    "consumed again",
    "dropped",
    "retained given",
    "carried",
    "subscription suspended",
    "hops",
    "circles",
    "stores restored",
    "lost with a store",
    "doubled by a store",
    "events",
    "exported",
    "hostile frames",
    "users put",
    "users move",
    "users get",
    "users ended",
)


def summary(seeds: int, sums: Counter[str], hit: Counter[str], took_s: float) -> str:
    """Returns the summary line."""
    crashes = sums["crash"] + sums["crash before"] + sums["crash after"]
    features = ", ".join(f"{name} {sums[name]}" for name in FEATURES)
    kinds = ", ".join(f"{kind} {sums[kind]} in {100 * hit[kind] // seeds}%" for kind in sorted(hit))
    return (
        f"sim: {seeds} seeds in {took_s:.0f} s, {sums['steps']} steps, "
        f"{sums['ms'] / 3_600_000:.1f} simulated hours, {crashes} crashes, {sums['cut']} cuts, "
        f"{sums['puts']} puts, {sums['deliveries']} deliveries ({sums['redeliveries']} again), "
        f"{sums['commits']} link commits, {sums['blocked']} blocked; features: {features}; "
        f"faults: {kinds}"
    )


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="simulates networks of queue managers")
    parser.add_argument(
        "--seeds", type=int, help="number of seeds (default: 200, or no limit with --minutes)"
    )
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--minutes", type=float, default=0, help="stop after this number of minutes"
    )
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 2))
    parser.add_argument(
        "--steps", type=int, default=STEPS, help="steps of each seed before its faults end"
    )
    options = parser.parse_args()
    if (options.seeds is not None and options.seeds < 1) or options.minutes < 0:
        parser.error("--seeds and --minutes must be positive")
    started = time.monotonic()
    deadline = started + options.minutes * 60 if options.minutes else float("inf")
    total = options.seeds or (None if options.minutes else 200)
    seeds = (
        count(options.start) if total is None else iter(range(options.start, options.start + total))
    )
    done, sums, hit, failed = 0, Counter[str](), Counter[str](), 0
    for result in results(seeds, options.jobs, options.steps, deadline):
        done += 1
        sums += result.sums
        hit.update(result.hit)
        if result.failure:
            failed += 1
            print(result.failure, file=sys.stderr, flush=True)
            if failed == 5:
                break
    print(summary(done, sums, hit, time.monotonic() - started))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
