"""The messages that are sent again after a drop in the middle of a window with a gap.

    FROM ──▶ path 0 ────────────────▶ TO    the messages on these paths are stored
         ──▶ path 1 ──▶ held up ─ ─ X       the messages on this path are missing: the gap
         ──▶ path 2, 3 ─────────────▶

Then path 1 or all four paths are cut. Every protocol must send the messages on path 1 again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from qmgr_bench.load import LoadFailed
from qmgr_bench.network import Network
from qmgr_bench.own.link import QUEUE, REMOTE
from qmgr_bench.pair import Pair, wait_until
from qmgr_bench.qmgr import bodies
from qmgr_bench.tap import Tap
from qmgr_bench.transfer_flows import COMPUTED, MEASURED
from qmgr_client.blocking import connect
from qmgr_proxy.pipe import Shape
from qmgr_proxy.proxy import Proxy, Way

PATHS = 4
SLOW = 1  # the path to hold up; some messages must use it
FOREVER = Shape(delay_ms=3_600_000)


@dataclass(frozen=True, slots=True)
class ResentMessages:
    """Messages that were, or would be, sent again."""

    way: str
    how: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """The record of one drop: the sizes of the sent messages, and the ids that never arrived."""

    cut: str
    resent: ResentMessages
    bytes_of: Mapping[int, int]
    missing: frozenset[int]


def without_held(dropped: Dropped) -> ResentMessages:
    """Returns the messages that a link sends again if it knows only the commit id.

    Such a link sends all messages above the commit id.
    """
    commit_id = min(dropped.missing) - 1
    above = [size for seq_id, size in dropped.bytes_of.items() if seq_id > commit_id]
    return ResentMessages("a link that knows only the commit id", COMPUTED, len(above), sum(above))


def of_batch(dropped: Dropped, batch: int) -> ResentMessages:
    """Returns the messages that a channel sends again for an unfinished batch of size *batch*."""
    open_ids = sorted(dropped.bytes_of)[-batch:]
    size = sum(dropped.bytes_of[seq_id] for seq_id in open_ids)
    name = f"channel, an open batch of {len(open_ids):,}"
    return ResentMessages(name, COMPUTED, len(open_ids), size)


def drops(
    pair: Pair, network: Network, messages: int, size_bytes: int, batch: int
) -> list[ResentMessages]:
    """Measures drops of one and of all connections, and computes them for other protocols."""
    one = drop(pair, network, messages, size_bytes, is_all=False)
    all_ = drop(pair, network, messages, size_bytes, is_all=True)
    return [
        one.resent,
        all_.resent,
        without_held(one),
        of_batch(one, messages),
        of_batch(one, batch),
    ]


def drop(pair: Pair, network: Network, messages: int, size_bytes: int, *, is_all: bool) -> Dropped:
    """Measures the repeated messages after a cut of one path that is held up, or of all paths."""
    tap = Tap()
    proxy = network.proxy(pair.to.address, ear=tap.hear)
    pair.lead(proxy.address, PATHS)
    pool = bodies(size_bytes, vary=True)
    with pair.started(PATHS), connect(pair.source.address, name="bench.producer") as client:
        slow = next(number for number, path in tap.path_of.items() if path == SLOW)
        network.call(lambda: _hold_up(proxy, slow))
        client.put_many(REMOTE, [pool[at % len(pool)] for at in range(messages)])
        wait_until(lambda: len(tap.bytes_of) == messages, "not all messages were sent")
        missing = frozenset(network.call(lambda: _over(tap, slow)))
        if not missing:
            raise LoadFailed("no message was sent over the connection that was held up")
        stored = messages - len(missing)
        wait_until(
            lambda: pair.to.depth(QUEUE) >= stored, "the messages on the other paths did not arrive"
        )
        network.call(lambda: _cut(proxy, None if is_all else slow))
        pair.await_stored(messages)
    pair.clear()
    which = f"all {PATHS} connections" if is_all else f"one of {PATHS} connections"
    resent = ResentMessages(f"link, {which} cut", MEASURED, tap.again_messages, tap.again_bytes)
    return Dropped(which, resent, dict(tap.bytes_of), missing)


def _over(tap: Tap, number: int) -> list[int]:
    """Returns the ids that were sent over the connection *number*."""
    return [seq_id for seq_id, over in tap.sent_over.items() if over == number]


def _hold_up(proxy: Proxy, number: int) -> None:
    for connection in proxy.connections:
        if connection.number == number:
            connection.shape(FOREVER, [Way.FORTH])


def _cut(proxy: Proxy, number: int | None) -> None:
    for connection in proxy.connections:
        if number in (None, connection.number):
            connection.cut()
