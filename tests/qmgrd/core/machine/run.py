"""Runs the machine with one seed after another.

    python -m tests.qmgrd.core.machine.run [--minutes M]

The program prints one line. If the manager and the model differ, the program exits with 1 and
prints `seed=...` and the shortest list of rules that shows the difference. To repeat the failure,
pass that seed to --start, with --seeds 1.
"""

import argparse
import sys
import time
import traceback
from itertools import count

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.qmgrd.core.machine.machine import Machine

EXAMPLES = 20  # number of examples per seed
STEPS = 60  # number of steps per example


def run_seed(
    number: int,
    *,
    shrink: bool = True,
    examples: int = EXAMPLES,
    machine: type[RuleBasedStateMachine] = Machine,
) -> str:
    """Runs the examples of a seed; returns the description of a failure, or "".

    Args: number: The seed. shrink: Whether to minimize the list of rules, which takes up to five
    minutes. examples: The number of examples. machine: The class to run.
    """
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    found = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=False,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(seed(number)(type("Machine", (machine,), {})), settings=found)
    except Exception as error:
        return _described(error)
    return ""


def _described(error: Exception) -> str:
    """Returns the failure, its location, and the rules that led to the failure."""
    cause = error.__cause__ or error  # A bug in a turn causes TurnFailed.
    where = traceback.extract_tb(cause.__traceback__)[-3:]
    places = "".join(traceback.format_list(where))
    rules = "\n".join(getattr(error, "__notes__", []))
    return f"{type(cause).__name__}: {cause}\n{places}{rules}"


def main(machine: type[RuleBasedStateMachine] = Machine, what: str = "queues") -> int:
    """Runs the command line. *machine* has the rules, and *what* names the subject of the rules."""
    parser = argparse.ArgumentParser(description=f"rules on {what}, compared with a model")
    parser.add_argument("--minutes", type=float, default=1.0, help="minutes until the run stops")
    parser.add_argument("--start", type=int, default=0, help="the first seed; 0: a random one")
    parser.add_argument("--seeds", type=int, default=0, help="number of seeds; 0: no limit")
    options = parser.parse_args()
    if options.minutes <= 0:
        parser.error("--minutes must be positive")
    started = time.monotonic()
    for done, number in enumerate(count(options.start or time.time_ns() // 1_000), 1):
        failure = run_seed(number, machine=machine)
        if failure:
            print(f"seed={number}\n{failure}", file=sys.stderr)
        is_over = done == options.seeds or time.monotonic() > started + 60 * options.minutes
        if failure or is_over:
            break
    took_s = time.monotonic() - started
    found = "one failed" if failure else "none failed"
    print(f"machine of {what}: {done} seeds of {EXAMPLES} examples in {took_s:.0f} s, {found}")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
