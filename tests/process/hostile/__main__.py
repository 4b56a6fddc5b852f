"""``python -m tests.process.hostile --minutes N [--seed S] [--only KIND,...] [--plant FAULT]``."""

import argparse
import random
import sys
import time
from pathlib import Path

from tests.process.hostile.campaign import DEFINED, Limits, Plan, Result, run
from tests.process.hostile.planted import FAULTS

ACT_S = 180.0  # maximum duration of an act, so that a long campaign has many stores


def main() -> int:
    """Runs a campaign; returns 0 if all invariants hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.process.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="", help=f"of: {','.join(Plan.kinds)}")
    parser.add_argument("--acts", default=",".join(DEFINED), help="kinds of stores")
    parser.add_argument("--dir", type=Path, default=Path("build/hostile"))
    parser.add_argument("--stall-ms", type=float, default=Limits.stall_ms)
    parser.add_argument("--p99-ratio", type=float, default=Limits.p99_ratio)
    parser.add_argument("--plant", choices=FAULTS, help="the defence to remove from the daemon")
    options = parser.parse_args()
    kinds = tuple(options.only.split(",")) if options.only else tuple(Plan.kinds)
    acts = options.acts.split(",")
    if options.minutes <= 0 or not set(kinds) <= set(Plan.kinds) or not set(acts) <= set(DEFINED):
        parser.error(
            f"minutes must be above 0, kinds in {', '.join(Plan.kinds)}, "
            f"acts in {', '.join(DEFINED)}"
        )
    seed = random.randrange(2**32) if options.seed is None else options.seed
    seconds = options.minutes * 60
    repeats = max(1, round(seconds / ACT_S / len(acts)))
    planted = ("-m", "tests.process.hostile.planted", options.plant)
    plan = Plan(
        acts=acts * repeats,
        seconds=seconds / len(acts) / repeats,
        kinds=kinds,
        limits=Limits(p99_ratio=options.p99_ratio, stall_ms=options.stall_ms),
        program=planted if options.plant else Plan.program,
    )
    began_s = time.monotonic()
    try:
        result = run(options.dir.resolve(), seed, plan)
    except BaseException:
        print(f"hostile: failed during the run, seed={seed}", file=sys.stderr)
        raise
    print(summary(result, seed, (time.monotonic() - began_s) / 60))
    broken = result.broken(plan.limits)
    if broken:
        print(f"hostile: broken: {', '.join(broken)}; repeat with --seed {seed}", file=sys.stderr)
    return 1 if broken else 0


def summary(result: Result, seed: int, minutes: float) -> str:
    """Returns the summary line that the ledger records."""
    kinds = " ".join(f"{kind}={count}" for kind, count in sorted(result.counts.items()))
    return (
        f"hostile: seed={seed} minutes={minutes:.1f} {kinds} operations={result.operations} "
        f"kills={result.kills} lost={result.lost} doubled={result.doubled} stolen={result.stolen} "
        f"foreign={result.foreign} let_in={result.let_in} "
        f"unexpected_exits={result.unexpected_exits} turns_failed={result.turns_failed} "
        f"rss_max_mib={result.rss_max_mib} "
        f"definitions_mib={result.definitions_mib} "
        f"p99_ratio={result.p99_ratio:.2f} p99_ms={result.p99_ms:.0f} "
        f"longest_stall_ms={result.longest_stall_ms:.0f} "
        f"({result.longest_what}) verify={'unsound' if result.unsound else 'sound'}"
    )


if __name__ == "__main__":
    sys.exit(main())
