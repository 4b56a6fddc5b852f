"""The command, in a process that has the recorder."""

import argparse
import sys
import time
from contextlib import nullcontext

from tests.process.powercut.campaign import KINDS, Case, run_all, run_one
from tests.process.powercut.controls import CONTROLS

CONTROL_STATES = 1_000  # within which a planted fault must be found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.powercut")
    parser.add_argument("--states", type=int, default=20_000, help="number of states to check")
    parser.add_argument("--minutes", type=float, default=600, help="stop after this time")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random workloads")
    parser.add_argument("--kind", choices=list(KINDS), default="rows", help="of the workload")
    parser.add_argument("--operations", default="", help="run this workload only")
    parser.add_argument("--control", choices=list(CONTROLS), help="plant this fault")
    parser.add_argument("--controls", action="store_true", help="plant each fault in turn")
    wanted = parser.parse_args(arguments)
    return _controls() if wanted.controls else _campaign(wanted)


def _campaign(wanted: argparse.Namespace) -> int:
    begin_s = time.monotonic()
    with CONTROLS[wanted.control].plant() if wanted.control else nullcontext():
        if wanted.operations:
            result = run_one(Case(wanted.kind, wanted.operations, wanted.seed), wanted.states)
        else:
            result = run_all(wanted.states, wanted.seed, wanted.minutes)
    control = f" --control {wanted.control}" if wanted.control else ""
    for case, fault in result.faults:
        print(f"{fault}\n  repeat: python -m tests.process.powercut {case}{control}")
    print(
        f"seed={wanted.seed} states={result.states} repeated={result.repeated} "
        f"workloads={result.workloads} short={result.short} operations={result.operations} "
        f"cuts={result.cuts} cores={result.cores} faults={len(result.faults)} "
        f"seconds={time.monotonic() - begin_s:.0f}"
    )
    return 1 if result.faults else 0


def _controls() -> int:
    missed = 0
    for name, control in CONTROLS.items():
        begin_s = time.monotonic()
        with control.plant():
            result = run_one(Case("rows", control.operations, 0), CONTROL_STATES)
        found = result.faults[0][1] if result.faults else ""
        missed += control.words not in found
        note = found if control.words in found else f"NOT FOUND, but {found or 'nothing'}"
        print(f"{name}: states={result.states} s={time.monotonic() - begin_s:.1f}: {note}")
    print(f"controls={len(CONTROLS)} missed={missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
