"""TRANSFER: links on this machine, over a distant network, and over several slow connections.

    direct   FROM ──────────────────────────▶ TO
    proxy    FROM ──▶ proxy ────────────────▶ TO   the cost of the proxy itself
    far      FROM ──▶ proxy, 10 ms each way ▶ TO
    narrow   FROM ──▶ proxy, 10 MB/s per connection, one connection or four ──▶ TO

The legs take turns, in forward and in reverse order in each round, so a machine that becomes slower
does not affect the ratios. Installed peers also have a turn in each round (transfer_peers.py). The
proxies run in the process of the benchmark and use processor time that the daemons could use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import harmonic_mean, mean

from qmgr_bench.host import Host
from qmgr_bench.load import Load, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.network import Network
from qmgr_bench.own.link import LOCAL
from qmgr_bench.own.traffic import INFLIGHT, SIZE_BYTES, sender_on
from qmgr_bench.own.transfer_peers import PeerOver, Peers
from qmgr_bench.pair import Pair, Pull, pair
from qmgr_bench.qmgr import QmgrReceiver, Wire
from qmgr_bench.rows import PREFETCH
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least
from qmgr_protocol import messages as m
from qmgr_proxy.pipe import Shape

KIB = 1024
FAR = Shape(delay_ms=10)
NARROW = Shape(bytes_per_s=10_000_000)
CONNECTIONS = 4
FAR_LEAST, CONNECTIONS_LEAST = 0.8, 3.5


@dataclass(frozen=True, slots=True)
class Leg:
    """A route of the link."""

    name: str
    size_bytes: int
    messages: int
    connections: int = 1
    shape: Shape | None = None  # shape of the proxy; None for no proxy


DIRECT = Leg("direct", SIZE_BYTES, 50_000)
DIRECT_KIB = Leg("direct, 1 KiB", KIB, 25_000)
PROXY = Leg("proxy", SIZE_BYTES, 50_000, shape=Shape())
PROXY_KIB = Leg("proxy, 1 KiB", KIB, 25_000, shape=Shape())
FAR_OFF = Leg("far", SIZE_BYTES, 50_000, shape=FAR)
FAR_OFF_KIB = Leg("far, 1 KiB", KIB, 25_000, shape=FAR)
# These messages are so large that the network limits the rate, not a daemon. Both legs take equally
# long. After an idle period, a proxy passes some data without a limit. With equal times, this data
# is the same fraction of both legs.
ONE_NARROW = Leg("narrow, 1 connection", 16 * KIB, 1_200, shape=NARROW)
FOUR_NARROW = Leg(f"narrow, {CONNECTIONS} connections", 16 * KIB, 4_800, CONNECTIONS, NARROW)
LEGS = (DIRECT, DIRECT_KIB, PROXY, PROXY_KIB, FAR_OFF, FAR_OFF_KIB, ONE_NARROW, FOUR_NARROW)


@dataclass(frozen=True, slots=True)
class TransferOver:
    """The medians of TRANSFER over one leg."""

    way: str
    size_bytes: int
    connections: int
    messages: int
    messages_per_s: float
    mb_per_s: float  # rate of the bodies
    from_cpu_us: float  # processor time of the sending daemon, per message
    to_cpu_us: float
    cpu_us: float  # processor time of both daemons, per message


@dataclass(frozen=True, slots=True)
class Transfers:
    """The results of row TRANSFER. Ratios are medians of the ratios within the rounds."""

    put_and_get_per_s: float  # rate on one daemon with puts and gets at the same time, as in W2
    share: float  # direct rate, relative to half of put_and_get_per_s
    proxy_ratio: float  # rate through a proxy without delay, relative to direct
    proxy_ratio_kib: float
    far_ratio: float
    far_ratio_kib: float
    far_ratio_to_proxy: float  # rate with the delay, relative to the proxy without it
    connections_ratio: float  # rate of four narrow connections, relative to one
    series: list[TransferOver]
    peers: list[PeerOver]

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        four = f"rate of {CONNECTIONS} connections of 10 MB/s each, relative to 1"
        return [
            at_least("transfer rate, relative to half of put and get", self.share, 1.0),
            at_least(
                "rate with a round trip of 20 ms, 256 B, relative to direct",
                self.far_ratio,
                FAR_LEAST,
            ),
            at_least(
                "rate with a round trip of 20 ms, 1 KiB, relative to direct",
                self.far_ratio_kib,
                FAR_LEAST,
            ),
            at_least(four, self.connections_ratio, CONNECTIONS_LEAST),
            *(target for peer in self.peers for target in peer.targets()),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        bars: Bars = [(one.way, one.messages_per_s, one.connections == 1) for one in self.series]
        return "messages per second, medians", [
            *bars,
            ("half of put and get", self.put_and_get_per_s / 2, False),
            *((f"{one.peer}, {one.size_bytes} B", one.messages_per_s, False) for one in self.peers),
        ]


def transfer(setting: Setting) -> Transfers:
    """Measures all legs alternately with puts and gets on one daemon."""
    pulls: dict[Leg, list[Pull]] = {leg: [] for leg in LEGS}
    both: list[float] = []
    peers = Peers(setting, (SIZE_BYTES, KIB))
    with pair(setting.directory) as ends, Network() as network:
        ends.to.ask(m.QueueCreate, LOCAL)
        addresses = {
            leg: ends.to.address
            if leg.shape is None
            else network.proxy(ends.to.address, leg.shape).address
            for leg in LEGS
        }
        for number in range(setting.rounds):
            before = put_and_get(ends.to, setting.seconds / 2)
            seen: dict[Leg, list[Pull]] = {leg: [] for leg in LEGS}
            for leg in (*LEGS, *LEGS[::-1]):
                setting.say(f"TRANSFER: round {number + 1} of {setting.rounds}, {leg.name}")
                ends.lead(addresses[leg], leg.connections)
                seen[leg].append(pull(ends, leg, setting))
            after = put_and_get(ends.to, setting.seconds / 2)
            both.append(round(harmonic_mean([before, after])))
            for leg, found in seen.items():
                pulls[leg].append(joined(found))
            peers.round(number)
    beside = peers.beside({SIZE_BYTES: pulls[DIRECT], KIB: pulls[DIRECT_KIB]})
    return of_pulls(pulls, both, setting, beside)


def pull(ends: Pair, leg: Leg, setting: Setting) -> Pull:
    """Transfers the messages of *leg* and returns the figures."""
    return ends.pull(setting.scaled(leg.messages), leg.size_bytes, setting.say)


def joined(pulls: Sequence[Pull]) -> Pull:
    """Returns the average figures of *pulls*, which must have the same number of messages."""
    return Pull(
        round(harmonic_mean([one.messages_per_second for one in pulls])),
        round(mean([one.from_cpu_us for one in pulls]), 2),
        round(mean([one.to_cpu_us for one in pulls]), 2),
    )


def put_and_get(host: Host, seconds: float) -> float:
    """Puts and gets at the same time, as in W2. Returns the rate per second."""
    with Wire(host.address, "bench.producer") as one, Wire(host.address, "bench.consumer") as other:
        receiver = QmgrReceiver(other, LOCAL, PREFETCH)
        outcome = Load(Plan(INFLIGHT, seconds), [sender_on(one, LOCAL)], receiver).run()
    return round(outcome.messages / outcome.seconds)


def of_pulls(
    pulls: dict[Leg, list[Pull]], both: Sequence[float], setting: Setting, peers: list[PeerOver]
) -> Transfers:
    """Returns the medians of the measurements over all rounds."""
    rates = {leg: [one.messages_per_second for one in found] for leg, found in pulls.items()}
    return Transfers(
        median(both),
        median_ratio(rates[DIRECT], [one / 2 for one in both]),
        median_ratio(rates[PROXY], rates[DIRECT]),
        median_ratio(rates[PROXY_KIB], rates[DIRECT_KIB]),
        median_ratio(rates[FAR_OFF], rates[DIRECT]),
        median_ratio(rates[FAR_OFF_KIB], rates[DIRECT_KIB]),
        median_ratio(rates[FAR_OFF], rates[PROXY]),
        median_ratio(rates[FOUR_NARROW], rates[ONE_NARROW]),
        [_over(leg, found, setting.scaled(leg.messages)) for leg, found in pulls.items()],
        peers,
    )


def _over(leg: Leg, found: Sequence[Pull], messages: int) -> TransferOver:
    rate = median([one.messages_per_second for one in found])
    return TransferOver(
        leg.name,
        leg.size_bytes,
        leg.connections,
        messages,
        rate,
        round(rate * leg.size_bytes / 1e6, 1),
        median([one.from_cpu_us for one in found]),
        median([one.to_cpu_us for one in found]),
        median([one.cpu_us for one in found]),
    )
