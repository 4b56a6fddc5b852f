"""A process that moves messages like a channel with batches, to compare with a link.

It puts received messages at the far end at once, a batch in one unit of work, and commits there.
Then it acknowledges the batch at the near end. Until the commit, no consumer gets the messages.

    python -m qmgr_bench.transfer_mover FROM_ADDRESS QUEUE TO_ADDRESS QUEUE BATCH
"""

import sys
from collections.abc import Iterable
from itertools import islice

from qmgr_client.blocking import Client, connect
from qmgr_client.message import Message


def move(near: Client, messages: Iterable[Message], far: Client, queue: str) -> int:
    """Moves *messages*, got at *near*, to *queue* at *far*, as one batch; returns their number."""
    moved = []
    with far.unit_of_work() as unit:
        for message in messages:
            unit.put(queue, message.body)
            moved.append(message)
    near.ack_many(moved)
    return len(moved)


def main(words: list[str]) -> None:
    """Moves batches until stopped."""
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
