"""The flows of N messages over a link, counted for ours and computed for other protocols.

A flow is one message, or one notice about messages, in one direction. In any protocol, several
flows can share a frame. Therefore the comparison counts flows.
"""

from dataclasses import dataclass

from qmgr_bench.network import Network
from qmgr_bench.own.link import REMOTE
from qmgr_bench.pair import Pair
from qmgr_bench.qmgr import bodies
from qmgr_bench.tap import Tap
from qmgr_client.blocking import connect
from qmgr_protocol import messages as m

CONFIRM_FLOWS = 4  # a put and its answer, a confirm and its answer
MEASURED, COMPUTED = "measured", "computed"


@dataclass(frozen=True, slots=True)
class Flows:
    """The flows of N messages. None means not measured."""

    way: str
    how: str
    messages: int  # number of messages from sender to receiver, even if several share a frame
    words: int  # number of notices about messages, and of requests for notices
    flows: int
    frames: int | None = None
    bytes: int | None = None


def of_tap(way: str, tap: Tap) -> Flows:
    """Returns the traffic that *tap* counted as flows."""
    words = sum(tap.frames[kind] for kind in (m.CommitAsk, m.Committed, m.Blocked))
    frames = tap.frames[m.Put] + words
    return Flows(way, MEASURED, tap.records, words, tap.records + words, frames, tap.flow_bytes)


def of_confirms(messages: int) -> Flows:
    """Returns the computed flows of the protocol that confirms each message."""
    flows = CONFIRM_FLOWS * messages
    return Flows("4-flow confirm protocol", COMPUTED, messages, flows - messages, flows)


def of_channel(messages: int, batch: int) -> Flows:
    """Returns the computed flows of a channel with batches.

    The end of a batch travels with its last message.
    """
    words = -(-messages // batch)
    return Flows(f"channel, batches of {batch}", COMPUTED, messages, words, messages + words)


def flows(pair: Pair, network: Network, messages: int, size_bytes: int, batch: int) -> list[Flows]:
    """Counts the flows of *messages* that are put one by one, and of a backlog of the same size."""
    tap = Tap()
    pool = bodies(size_bytes, vary=True)
    items = [pool[at % len(pool)] for at in range(messages)]
    pair.lead(network.proxy(pair.to.address, ear=tap.hear).address)
    with connect(pair.source.address, name="bench.producer") as client:
        with pair.started():
            tap.clear()
            for body in items:
                client.put(REMOTE, body)
            pair.await_stored(messages)
            single = of_tap("link, messages put one by one", tap)
        pair.clear()
        tap.clear()
        client.put_many(REMOTE, items)
        with pair.started():
            pair.await_stored(messages)
            backlog = of_tap("link, a backlog", tap)
        pair.clear()
    return [single, backlog, of_confirms(messages), of_channel(messages, batch)]
