"""Fuzzes with N frames: `python -m tests.fuzz --count N [--seed S]`.

Each round has a seed. The first seed is S.
"""

import argparse
import resource
import sys
import time
import traceback

from tests.fuzz.core import fuzz_core
from tests.fuzz.selectors import fuzz_selectors
from tests.fuzz.wire import fuzz_wire

MEMORY_GROWTH_MAX_KIB = 256 * 1024


def main() -> int:
    """Runs the fuzzer; returns 0 if no bug was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="number of frames to send")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first round")
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error("--count must be positive")
    start = time.monotonic()
    memory_kib = 0
    longest_s = 0.0
    sent, seed = 0, arguments.seed
    while sent < arguments.count:
        began = time.monotonic()
        try:
            sent += fuzz_wire(seed) + fuzz_core(seed)
            fuzz_selectors(seed)
        except Exception:
            traceback.print_exc()
            print(f"fuzz: FAILED: repeat with: python -m tests.fuzz --count 1 --seed {seed}")
            return 1
        longest_s = max(longest_s, time.monotonic() - began)
        memory_kib = memory_kib or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seed += 1
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_kib
    seconds = time.monotonic() - start
    print(
        f"fuzz: {sent} frames in {seed - arguments.seed} rounds from seed {arguments.seed}, "
        f"{seconds:.0f} s, longest round {longest_s:.1f} s, memory +{grown_kib // 1024} MiB: "
        "nothing found"
    )
    if grown_kib > MEMORY_GROWTH_MAX_KIB:
        print(f"fuzz: FAILED: memory grew by {grown_kib} KiB, over {MEMORY_GROWTH_MAX_KIB} KiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
