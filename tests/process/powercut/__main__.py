"""Cuts the power of a store, in a simulation: ``python -m tests.process.powercut``.

    recorder.c   records each write and flush of a workload (work.py, rows.py, core.py)
    disk.py      has the disk at each moment: what is durable, and what is in the cache
    cuts.py      chooses moments, and the parts of the cache that a power cut keeps
    check.py     starts from such a disk, and compares with the turns that were acknowledged

All workloads of up to three operations on rows are tried, and random longer ones on rows and on the
core of the daemon. ``controls.py`` plants faults that the test must find. The command prints one
summary line. After any fault it exits with 1, and prints the command that repeats the workload.
"""

import sys

from tests.process.powercut.recorder import run_recorded, unavailable

if __name__ == "__main__":
    if reason := unavailable():
        sys.exit(f"powercut: {reason}")
    sys.exit(run_recorded("tests.process.powercut.command", sys.argv[1:]))
