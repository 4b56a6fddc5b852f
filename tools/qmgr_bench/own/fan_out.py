"""TOPIC: publications to 1 to 1,000 durable subscribers that each acknowledge them.

    publisher, 256 in flight ──▶ flights/JFK/UA ──▶ n subscriptions ──▶ consumers that ack each

Each subscriber has its own connection, for our daemon and for peers. In another run, all
subscribers share one connection. A delivery counts when its ack is answered, so its time includes
publishing, storing, delivering and acknowledging.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from qmgr_bench.fan import FANS, Fan
from qmgr_bench.figures import Figures
from qmgr_bench.host import Host
from qmgr_bench.load import Load, LoadFailed, Plan, Receiver, Sender
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.crowd import DESTINATION, CrowdReceiver, subscribe
from qmgr_bench.own.traffic import INFLIGHT, SIZE_BYTES, pool_of
from qmgr_bench.own.wide import FILES_SPARE, allow_files
from qmgr_bench.qmgr import QmgrReceiver, QmgrSender, Wire, bodies
from qmgr_bench.rows import OURS, PREFETCH
from qmgr_bench.setting import Setting

SUBSCRIPTIONS = (1, 10, 100, 1_000)
# assumed rate of deliveries, so that a run takes about the intended time
DELIVERIES_A_SECOND = 40_000
PUBLICATIONS_MIN = 20
CUT_AFTER = 4.0  # a peer is stopped after this multiple of the intended duration
EACH, SHARED = "one each", "one for all"


@dataclass(frozen=True, slots=True)
class FanOut:
    """The medians for one number of subscribers on one server.

    Ratios compare our daemon with the peer within each round.
    """

    server: str
    subscriptions: int
    connections: str
    publications: int
    deliveries_per_s: float
    server_cpu_us: float  # processor time of the server, in us per delivery
    generator_cpu_us: float
    generator_share: float  # fraction of one core that the generator used
    cut: bool  # whether the run was too slow and was stopped
    ratio: float  # our deliveries per second, relative to the peer's
    cpu_ratio: float  # the peer's processor time, relative to ours
    about: str


Key = tuple[str, int, str]  # (server, number of subscriptions, connections)


def fan_out(setting: Setting) -> list[FanOut]:
    """Measures our daemon and the installed peers, alternately."""
    counts = sorted({setting.scaled(count) for count in SUBSCRIPTIONS})
    allow_files(counts[-1] + FILES_SPARE)
    fans = [fan for fan in FANS if fan.name in setting.peers and fan.version() is not None]
    found: dict[Key, list[Figures]] = {}
    for number in range(setting.rounds):
        for count in counts:
            words = f"TOPIC: round {number + 1} of {setting.rounds}, {count:,} subscriptions"
            runs: list[tuple[Key, Callable[[Path, int, Setting], Figures]]] = [
                ((OURS, count, EACH), our_run),
                ((OURS, count, SHARED), our_shared_run),
            ]
            runs += [
                ((fan.name, count, EACH), _PeerRun(fan))
                for fan in fans
                if count <= fan.subscriptions_max
            ]
            for key, run in runs if number % 2 else reversed(runs):
                setting.say(f"{words}, {key[0]}")
                with TemporaryDirectory(prefix="fan-", dir=setting.directory) as made:
                    try:
                        pulse = run(Path(made), count, setting)
                    except (LoadFailed, OSError) as error:
                        if key[0] == OURS:
                            raise
                        setting.note(f"{key[0]} failed in TOPIC and is skipped: {error}")
                        fans = [fan for fan in fans if fan.name != key[0]]
                        continue
                found.setdefault(key, []).append(pulse)
    return _beside(found, setting)


def publications_of(count: int, setting: Setting) -> int:
    """Returns the number of publications for *count* subscriptions."""
    return max(round(DELIVERIES_A_SECOND * setting.seconds / count), PUBLICATIONS_MIN)


def our_run(directory: Path, count: int, setting: Setting) -> Figures:
    """Publishes to *count* subscribers of our daemon, each with its own connection."""
    return _ours(directory, count, setting, is_shared=False)


def our_shared_run(directory: Path, count: int, setting: Setting) -> Figures:
    """Publishes to *count* subscribers of our daemon on one connection."""
    return _ours(directory, count, setting, is_shared=True)


def _ours(directory: Path, count: int, setting: Setting, *, is_shared: bool) -> Figures:
    with Host(directory / "host") as host, ExitStack() as stack:
        names = subscribe(host, count)

        def wire(name: str) -> Wire:
            return stack.enter_context(Wire(host.address, name))

        sender = QmgrSender(
            wire("bench.publisher"), DESTINATION, pool_of(SIZE_BYTES), coalesce=True
        )
        receivers: list[Receiver] = (
            [CrowdReceiver(wire("bench.crowd"), names, PREFETCH)]
            if is_shared
            else [QmgrReceiver(wire(name.replace(":", ".")), name, PREFETCH) for name in names]
        )
        return _run(setting, count, sender, receivers, lambda: host.cpu_ns() / 1e9)


class _PeerRun:
    """One run of a peer."""

    def __init__(self, fan: Fan) -> None:
        self._fan = fan

    def __call__(self, directory: Path, count: int, setting: Setting) -> Figures:
        fan = self._fan
        try:
            fan.start(directory, count)
            with ExitStack() as stack:
                sender = fan.sender(bodies(SIZE_BYTES, vary=True))
                stack.enter_context(sender.sock)
                receivers = fan.receivers(PREFETCH, SIZE_BYTES)
                for receiver in receivers:
                    stack.enter_context(receiver.sock)
                return _run(setting, count, sender, receivers, fan.cpu_s)
        finally:
            with suppress(OSError):
                fan.stop()


def _run(
    setting: Setting,
    count: int,
    sender: Sender,
    receivers: Sequence[Receiver],
    cpu_s: Callable[[], float],
) -> Figures:
    os.sync()  # Earlier writes must not be flushed during the run.
    publications = publications_of(count, setting)
    plan = Plan(
        INFLIGHT, float("inf"), publications, seconds_max=CUT_AFTER * setting.seconds, copies=count
    )
    before_s = cpu_s()
    outcome = Load(plan, [sender], *receivers).run()
    return Figures.of(outcome, cpu_s() - before_s)


def _beside(found: dict[Key, list[Figures]], setting: Setting) -> list[FanOut]:
    """Returns the results, each compared with our daemon's in the same rounds."""
    abouts = {fan.name: fan.about for fan in FANS} | {OURS: "one transaction before any reply"}
    return [
        _fan_out(key, pulses, found[OURS, key[1], EACH], setting, abouts[key[0]])
        for key, pulses in sorted(found.items(), key=lambda pair: (pair[0][1], pair[0][0] != OURS))
        if len(pulses) == setting.rounds
    ]


def _fan_out(
    key: Key, pulses: Sequence[Figures], ours: Sequence[Figures], setting: Setting, about: str
) -> FanOut:
    rates = [pulse.messages_per_second for pulse in pulses]
    cpus = [max(pulse.server_cpu_us, 0.01) for pulse in pulses]
    return FanOut(
        *key,
        publications_of(key[1], setting),
        median(rates),
        median(cpus),
        median([pulse.generator_cpu_us for pulse in pulses]),
        median([pulse.generator_share for pulse in pulses]),
        any(one.is_cut for one in pulses),
        median_ratio([pulse.messages_per_second for pulse in ours], rates),
        median_ratio(cpus, [max(pulse.server_cpu_us, 0.01) for pulse in ours]),
        about,
    )
