"""A process that moves messages as a channel does that sends batches, to measure beside a link.

What it gets it puts at the far end at once, all of a batch in one unit of work, and commits there;
then the near end may forget the batch. There the messages lie before, and nobody can get them.

    python -m qmgr_bench.transfer_mover FROM_ADDRESS QUEUE TO_ADDRESS QUEUE BATCH
"""

import sys
from collections.abc import Iterable
from itertools import islice

from qmgr_client.blocking import Client, connect
from qmgr_client.message import Message


def move(near: Client, messages: Iterable[Message], far: Client, queue: str) -> int:
    """Moves *messages*, got at *near*, to *queue* at *far*, as one batch; return how many."""
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
