"""A process that moves messages like a channel with batches, for comparison with a link.

The process puts received messages at the far end immediately. The process uses one unit of work per
batch, and commits at the far end. Then it acknowledges the batch at the near end. No consumer gets
the messages before the commit.

    python -m qmgr_bench.transfer_mover FROM_ADDRESS QUEUE TO_ADDRESS QUEUE BATCH
"""

import sys
from collections.abc import Iterable
from itertools import islice

from qmgr_client.blocking import Client, connect
from qmgr_client.message import Message


def move(near: Client, messages: Iterable[Message], far: Client, queue: str) -> int:
    """Moves *messages* from *near* to *queue* at *far* as one batch. Returns their number."""
    moved = []
    with far.unit_of_work() as unit:
        for message in messages:
            unit.put(queue, message.body)
            moved.append(message)
    near.ack_many(moved)
    return len(moved)


def main(words: list[str]) -> None:
    """Moves batches until the process is stopped."""
    from_address, transmission, to_address, queue, batch = words
    with (
        connect(from_address, name="bench.mover") as near,
        connect(to_address, name="bench.mover") as far,
        near.consume(transmission) as consumer,
    ):
        while move(near, islice(consumer, int(batch)), far, queue):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
