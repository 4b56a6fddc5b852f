"""Cuts the power of a store, in a simulation: ``python -m tests.process.powercut``.

    recorder.c   records each write and flush of a workload (work.py, rows.py, core.py)
    disk.py      has the disk at each moment: what is durable, and what is in the cache
    cuts.py      chooses moments and the parts of the cache that a power cut leaves
    check.py     starts from such a disk, and compares with the turns that were acknowledged

All workloads of up to three operations on rows are tried, and random longer ones on rows and on the
core of the daemon. ``controls.py`` plants faults that the test must find. The command prints one
summary line. After any fault it exits with 1, and prints the command that repeats the workload.
"""

import argparse
import os
import sys
import time
from contextlib import nullcontext

from tests.process.powercut.recorder import LOADED, run_recorded, unavailable


CONTROL_STATES = 3_000  # within which a planted fault must be found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.powercut")
    parser.add_argument("--states", type=int, default=20_000, help="states to check")
    parser.add_argument("--minutes", type=float, default=10_000, help="minutes at most")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random workloads")
    parser.add_argument("--kind", choices=("rows", "core"), default="rows")
    parser.add_argument("--operations", default="", help="run this workload only")
    parser.add_argument("--control", default="", help="plant this fault")
    parser.add_argument("--controls", action="store_true", help="plant each fault in turn")
    wanted = parser.parse_args(arguments)
    if why := unavailable():
        print(f"powercut: {why}", file=sys.stderr)
        return 2
    if LOADED not in os.environ:
        return run_recorded(arguments)
    return _recorded(wanted)


def _recorded(wanted: argparse.Namespace) -> int:
    # imported here because the modules need the recorder
    from tests.process.powercut import campaign as c
    from tests.process.powercut.controls import CONTROLS

    begin_s = time.monotonic()
    if wanted.controls:
        return _controls()
    planted = CONTROLS[wanted.control] if wanted.control else nullcontext
    with planted():
        if wanted.operations:
            one = c.Campaign()
            one.run(c.Case(wanted.kind, wanted.operations, wanted.seed))
            result = one.result
        else:
            result = c.run_for(wanted.states, wanted.seed, wanted.minutes)
    control = f" --control {wanted.control}" if wanted.control else ""
    for case, fault in result.faults:
        print(f"{fault}\n  repeat: python -m tests.process.powercut {case}{control}")
    print(
        f"seed={wanted.seed} states={result.states} repeated={result.repeated} "
        f"workloads={result.workloads} operations={result.operations} cuts={result.cuts} "
        f"cores={result.cores} faults={len(result.faults)} "
        f"seconds={time.monotonic() - begin_s:.0f}"
    )
    return 1 if result.faults else 0


def _controls() -> int:
    from tests.process.powercut import campaign as c
    from tests.process.powercut.controls import CONTROLS

    missed = 0
    for name, planted in CONTROLS.items():
        begin_s = time.monotonic()
        with planted():
            result = c.run_for(CONTROL_STATES, seed=0, minutes=1, faults_max=1)
        if not result.faults:
            missed += 1
        found = str(result.faults[0][1]) if result.faults else "NOT FOUND"
        print(f"{name}: {result.states} states, {time.monotonic() - begin_s:.1f} s: {found}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
