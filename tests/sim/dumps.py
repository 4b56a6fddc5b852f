"""Hashes of all stored rows at the end of each seed, which a refactoring must not change.

    python -m tests.sim.dumps [--seeds 200] [--start 0]     prints "world SEED HASH" lines

The hashes ignore sentences in stored rows: all strings that contain a space count as equal, so the
wording of a reason may change. ``dumps.txt`` contains the hashes after the latest change that was
intended to change rows.
"""

import argparse
import hashlib
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

from qmgr_protocol import frame
from qmgr_protocol.codec import pack, unpack
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from tests.sim import test_crash_matrix
from tests.sim.ledger import Violated
from tests.sim.node import Node
from tests.sim.run import world_of

ROWS, MATRIX_SEEDS = test_crash_matrix.ROWS, test_crash_matrix.SEEDS
FILE = Path(__file__).with_name("dumps.txt")
SEAL_BYTES = 4
SENTENCE_LENGTH = 400
SENTENCE = re.compile(r"^[^=<>]* [^=<>]* [^=<>]*$")  # This excludes selectors.
PACKED = {
    keys.SPACE_QUEUE,
    keys.SPACE_LINK,
    keys.SPACE_NOTE,
    keys.SPACE_JOB,
    keys.SPACE_HISTORY,
    keys.SPACE_ASIDE,
}
"""Key spaces with msgpack rows that may contain sentences."""


def padded(value: Any) -> Any:
    """Returns *value* with each sentence cut or extended to SENTENCE_LENGTH characters."""
    if isinstance(value, str):
        return value.ljust(SENTENCE_LENGTH) if SENTENCE.search(value) else value
    if isinstance(value, dict):
        return {key: padded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [padded(inner) for inner in value]
    return value


@contextmanager
def comparable() -> Iterator[None]:
    """A context in which neither estimates of rows nor the wording of sentences matter.

    Turns do not end after a certain number of rows. All sentences in frames have the same length,
    because a wire breaks at a random byte.
    """
    with (
        patch.object(Context, "rows", property(lambda _: 0, lambda *_: None)),
        patch.object(frame, "pack", lambda message: pack(padded(message))),
    ):
        yield


def masked(value: Any) -> Any:
    """Returns *value* with each sentence replaced by a blank."""
    if isinstance(value, str):
        return " " if " " in value else value
    if isinstance(value, dict):
        return {masked(key): masked(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner) for inner in value]
    return value


def rows(nodes: dict[str, Node]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yields the node, the key and the masked value of each row."""
    for name, node in sorted(nodes.items()):
        for key, value in node.store.rows.items():
            if key[:1] in PACKED:
                yield name, key, pack(masked(unpack(value[:-SEAL_BYTES])))
            else:
                yield name, key, value


def digest(nodes: dict[str, Node]) -> str:
    """Returns a hash of the contents of the stores of *nodes*, except sentences."""
    found = hashlib.sha256()
    for name, key, value in rows(nodes):
        found.update(b"%s %d:%s%d:%s" % (name.encode(), len(key), key, len(value), value))
    return found.hexdigest()[:32]


def world_line(seed: int) -> str:
    """Runs *seed* of the simulator, and returns its line."""
    with comparable():
        world = world_of(seed)
        world.is_guarded = False  # The rows are those of worlds without users.
        try:
            world.run()
        except Violated as violated:
            return f"world {seed} violates {violated.law}"
    return f"world {seed} {digest(world.nodes)}"


def matrix_line(row: int, seed: int) -> str:
    """Runs *seed* of a row of the crash matrix, and returns its line."""
    with comparable():
        bench = test_crash_matrix.live(ROWS[row], seed)
    return f"{ROWS[row].__name__} {seed} {digest(bench.nodes)}"


def lines(start: int, seeds: int, matrix_seeds: int) -> Iterator[str]:
    """Yields the lines of worlds and of the crash matrix, using two processes."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 2)) as pool:
        worlds = pool.map(world_line, range(start, start + seeds), chunksize=4)
        numbers = [row for row in range(len(ROWS)) for _ in range(matrix_seeds)]
        of_each = [*range(matrix_seeds)] * len(ROWS)
        yield from chain(worlds, pool.map(matrix_line, numbers, of_each, chunksize=16))


def main() -> None:
    """Prints all lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument(
        "--matrix", type=int, default=MATRIX_SEEDS, help="number of seeds for each row"
    )
    asked = parser.parse_args()
    for line in lines(asked.start, asked.seeds, asked.matrix):
        print(line, flush=True)


if __name__ == "__main__":
    main()
