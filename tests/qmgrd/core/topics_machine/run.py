"""Runs the machine of topics: python -m tests.qmgrd.core.topics_machine.run [--minutes M].

The options are the same as for tests.qmgrd.core.machine.run.
"""

import sys

from tests.qmgrd.core.machine.run import main, run_seed
from tests.qmgrd.core.topics_machine.machine import Machine


def run_topics_seed(number: int) -> str:
    """Runs the examples of a seed; returns the description of a failure, or ""."""
    return run_seed(number, shrink=False, machine=Machine)


if __name__ == "__main__":
    sys.exit(main(Machine, "topics"))
