"""Puts one message after another and times each put: ``python -m tests.process.put_probe ADDRESS``.

The program is a separate process, so that the load generator does not delay it. When stdin ends,
the program prints [[time, duration in seconds], ...] by the monotonic clock and exits.
"""

import json
import select
import sys
import time

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from tests.process.daemon import Wire

QUEUE = "PROBE"
ID = b"probe".ljust(16, b".")
PAUSE_S = 0.003
BODY = bytes(200)


def main() -> int:
    """Puts until stdin ends."""
    taken = []
    with Wire(sys.argv[1]) as wire:
        wire.send(m.Hello(m.MAGIC, 1, 1, "client", "probe"))
        wire.next(m.Welcome)
        producer = wire.producer(ID)
        batch = records.encode(records.Fields(BODY))
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            began = time.monotonic()
            producer.put(QUEUE, batch)
            taken.append((began, time.monotonic() - began))
            for message in [x for x in wire.received if type(x) is m.Ping]:
                wire.received.remove(message)
                wire.send(m.Pong(message.number))
    print(json.dumps(taken))
    return 0


if __name__ == "__main__":
    sys.exit(main())
