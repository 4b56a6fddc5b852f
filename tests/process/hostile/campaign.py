"""A campaign: acts of a daemon, good clients and attackers, and a check of the invariants."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from qmgr_client.aio import QueueManager, connect
from qmgr_demo.cluster import Node
from qmgr_demo.security import Security, User
from qmgr_protocol.tls import TlsOptions
from tests.process.hostile.attackers import KINDS, SECURED
from tests.process.hostile.good import QUEUES, SUBSCRIBERS, Good
from tests.process.hostile.strangers import GREEDY, GREEDY_LIMITS
from tests.process.hostile.watch import Watch, Windows, p99

NAME = "HOSTILE"
WAIT_MS = 60_000
LOOK_S = 0.1
SETTLE_S = 3.0  # time that clients have to reconnect after a restart
RSS_GUARD_MIB = 1_500  # To protect the machine, the campaign kills a daemon that uses more memory.
EXITS_MAX = 5  # number of unexpected exits after which an act is abandoned
SECURE = "secured"  # the act of a daemon with TLS and users
DEFINED = {"few": [0, 0, 0], "many": [9_900, 3_000, 1_000], "full": [0, 0, 0], SECURE: [0, 0, 0]}
SETTINGS = {
    "few": {},
    "many": {},
    SECURE: {},
    "full": {"QMGRD_STORE__MAP_BYTES": "16 MiB", "QMGRD_STORE__HIGH_WATER_PERCENT": "90"},
}
FULL_ONLY, FULL_LIKELY = ("fill",), ("fill", "rows", "producers")
GOOD = "good"  # the user of the good clients of the act SECURE
SHOWN = ("puts", "acked", "depth", "leased", "delayed", "purged", "expired", "dead", "lost")
QMCTL = str(Path(sys.executable).with_name("qmctl"))


@dataclass(frozen=True)
class Limits:
    """The limits of the invariants."""

    p99_ratio: float = 2.0
    p99_ms: float = 100.0  # A p99 below the budget of two turns breaks no invariant.
    stall_ms: float = 1_000.0
    rss_mib: int = 256  # allowed memory in addition to that for the definitions of the store


@dataclass(frozen=True)
class Plan:
    """The plan of a campaign."""

    acts: Sequence[str] = tuple(DEFINED)
    seconds: float = 600.0  # duration of an act
    rounds_min: int = 1  # minimum number of calm windows and attacks, regardless of their duration
    calm_s: float = 3.0
    attack_s: float = 6.0
    kinds: Sequence[str] = (*KINDS, *SECURED)
    at_once: Sequence[int] = (1, 2, 3)  # number of kinds that attack at the same time
    kills: float = 0.25  # fraction of attacks during which the daemon is killed
    limits: Limits = field(default_factory=Limits)
    program: Sequence[str] = ("-m", "qmgrd")


@dataclass(slots=True)
class Result:
    """The results of a campaign."""

    counts: Counter[str] = field(default_factory=Counter)  # number of attacks by kind
    lost: int = 0
    doubled: int = 0
    stolen: int = 0
    foreign: int = 0
    let_in: int = 0  # logins with guessed passwords
    kills: int = 0
    unexpected_exits: int = 0
    turns_failed: int = 0
    unsound: int = 0
    operations: int = 0
    rss_max_mib: int = 0  # maximum memory without that for definitions
    definitions_mib: int = 0  # memory for the definitions of the largest store
    p99_ratio: float = 0.0  # ratio for the worst kind of store
    p99_ms: float = 0.0  # p99 under attack for that kind of store
    longest_stall_ms: float = 0.0
    longest_what: str = ""
    # windows of all acts, by kind of store
    windows: dict[str, Windows] = field(default_factory=dict)
    ratios: dict[str, tuple[float, float]] = field(default_factory=dict)

    def broken(self, limits: Limits) -> list[str]:
        """Returns the names of the broken invariants."""
        laws = {
            "lost": self.lost,
            "doubled": self.doubled,
            "stolen": self.stolen,
            "let_in": self.let_in,
            "unexpected_exits": self.unexpected_exits,
            "turns_failed": self.turns_failed,
            "verify": self.unsound,
            "rss_max_mib": self.rss_max_mib > limits.rss_mib,
            "p99_ratio": self.p99_ratio > limits.p99_ratio and self.p99_ms > limits.p99_ms,
            "longest_stall_ms": self.longest_stall_ms > limits.stall_ms,
            "operations": not self.operations,
        }
        return [name for name, is_broken in laws.items() if is_broken]


class Act:
    """A daemon with its store, good clients and attackers."""

    def __init__(self, kind: str, directory: Path, plan: Plan, rng: Random, result: Result) -> None:
        self.kind, self._plan, self._rng, self._result = kind, plan, rng, result
        settings = {"QMGRD_LOG__LEVEL": "warning", **SETTINGS[kind]}
        self.node = Node(NAME, directory, settings, plan.program)
        self._security = Security(directory / "secrets") if kind == SECURE else None
        if self._security is not None:
            self._security.protect(self.node)
        self.watch = Watch(result.windows.setdefault(kind, {"calm": [], "attack": []}))
        self._log = directory / f"{NAME}.log"
        self._is_ours = True  # True if the daemon is down because of the campaign
        self._exits = 0
        self._deck: list[str] = []  # kinds that attack next, in reverse order
        self._has_drained = False
        self._lives = asyncio.Lock()  # held while the campaign kills or starts the daemon

    async def run(self) -> None:
        """Alternates calm windows and attacks, then drains, verifies and restarts."""
        self.node.start()
        attackers = await _start_attackers()
        good = Good(self._connect_good, self._rng.getrandbits(32), self.watch)
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = [
                    tasks.create_task(self.watch.keep_lag()),
                    tasks.create_task(self._guard()),
                ]
                await self._be_up()
                self._is_ours = False
                if self._security is not None:
                    await self._create_users(self._security)
                else:
                    await self._define(attackers)
                work = tasks.create_task(good.run())
                await asyncio.sleep(1)
                await self._rounds(attackers)
                await self._make_room()
                good.stopping.set()
                await work
                if good.lost or good.doubled:
                    await self._tell_of(good)
                self._has_drained = self._is_ours = True
                for task in keeping:
                    task.cancel()
        finally:
            attackers.kill()
            await attackers.wait()
            self._is_ours = True
            self._result.unexpected_exits += await asyncio.to_thread(self.node.stop) != 0
            self._add_up(good)
        await self._verify()
        self.node.start()
        await self._be_up()
        self._result.unexpected_exits += await asyncio.to_thread(self.node.stop) != 0

    async def _create_users(self, security: Security) -> None:
        good = User(GOOD, ["operator", "producer", "consumer"])
        rights = ["create", "delete", "put", "get"]
        greedy = User(
            GREEDY,
            grants=[
                (rights, "queue", "H.GREEDY.*"),
                (["subscribe"], "topic", "h/#"),
                (["create", "delete"], "subscription", "H.GREEDY.*"),
            ],
        )
        await security.create_users(self.node, [good, greedy])
        async with self.node.connect("operator") as manager:
            await manager.admin.user_alter(GREEDY, limits=GREEDY_LIMITS)

    def _connect_good(self, name: str, producer_id: bytes) -> QueueManager:
        """Returns a good client, which uses TLS and logs in if the daemon has users."""
        name = f"good-{name}"
        if self._security is None:
            return connect(self.node.address, name=name, wait_ms=None, producer_id=producer_id)
        return connect(
            self.node.dialled(self.node.tcp),
            name=name,
            wait_ms=None,
            producer_id=producer_id,
            user=GOOD,
            password_file=self.node.password_file(GOOD),
            tls=TlsOptions(ca_file=self._security.ca),
        )

    async def _define(self, attackers: asyncio.subprocess.Process) -> None:
        """Fills the store with definitions, and measures the memory that they use."""
        assert self.node.process is not None
        before_mib = self.watch.look_at(self.node.process.pid)
        await self._order(attackers, define=DEFINED[self.kind])
        self.watch.definitions_mib = self.watch.look_at(self.node.process.pid) - before_mib

    async def _rounds(self, attackers: asyncio.subprocess.Process) -> None:
        plan, until_s, number = self._plan, time.monotonic() + self._plan.seconds, 0
        while time.monotonic() < until_s or number < plan.rounds_min:
            number += 1
            self.watch.open("calm")
            await asyncio.sleep(plan.calm_s)
            calm_ms = p99(self.watch.windows["calm"][-1])
            kinds = self._choose()
            self.watch.open("attack")
            async with asyncio.TaskGroup() as tasks:
                order = self._order(
                    attackers, kinds=kinds, seconds=plan.attack_s, seed=f"{self._rng.random()}"
                )
                tasks.create_task(order)
                if self._rng.random() < plan.kills:
                    await asyncio.sleep(self._rng.uniform(0.5, plan.attack_s))
                    await self._kill()
            attack_ms = p99(self.watch.windows["attack"][-1])
            self.watch.close()
            await asyncio.sleep(0.5)
            print(
                f"{self.kind} {number}: {'+'.join(kinds)}: "
                f"p99 {calm_ms:.1f} -> {attack_ms:.1f} ms, "
                f"longest {self.watch.longest_ms:.0f} ms ({self.watch.longest_what}), "
                f"RssAnon at most {self.watch.rss_max_mib} MiB",
                flush=True,
            )

    def _choose(self) -> list[str]:
        """Returns the next kinds. A kind is repeated only after all kinds have attacked."""
        count = self._rng.choice(self._plan.at_once)
        while len(self._deck) < count:
            known = SECURED if self.kind == SECURE else KINDS
            possible = [kind for kind in self._plan.kinds if kind in known]
            kinds = [kind for kind in possible if kind not in FULL_ONLY]
            self._rng.shuffle(kinds)
            self._deck = [*kinds, *self._deck] if kinds else possible * count
        chosen = [self._deck.pop() for _ in range(count)]
        if self.kind == "full":
            likely = [kind for kind in FULL_LIKELY if kind in self._plan.kinds]
            chosen += likely[: self._rng.randint(1, 3)]
        return list(dict.fromkeys(chosen))

    async def _order(self, attackers: asyncio.subprocess.Process, **order: Any) -> None:
        """Sends an order to the attackers, and waits for its completion."""
        order |= {"tcp": self.node.tcp, "unix": self.node.address}
        if self._security is not None and self.node.protection is not None:
            passwords = str(self.node.protection.passwords)
            order |= {"ca": self._security.ca, "passwords": passwords}
        assert attackers.stdin is not None
        assert attackers.stdout is not None
        attackers.stdin.write(json.dumps(order).encode() + b"\n")
        self._result.counts.update(order.get("kinds", ()))
        answer = json.loads(await attackers.stdout.readline())
        for kind, counts in answer["counts"].items():
            floods = [
                f"{count} {what}"
                for what, count in counts.items()
                if self.kind == SECURE or "flood of" in what
            ]
            if floods:
                print(f"{self.kind}: {kind}: {', '.join(floods)}", flush=True)
            self._result.stolen += counts.get("stolen", 0)
            self._result.let_in += counts.get("let in", 0)

    async def _make_room(self) -> None:
        """Deletes the attackers' data from a full store, as an operator would."""
        async with connect(self.node.address, name="operator", wait_ms=WAIT_MS) as manager:
            rows = [row["queue"] for row in await manager.admin.queue_list()]
            for queue in {"H.FILL", "H.LARGE", "H.UNITS"} & set(rows):
                await manager.admin.queue_delete(queue, purge=True)

    async def _tell_of(self, good: Good) -> None:
        """Prints the lost and the doubled messages, and the depth of each queue."""
        for name, ledger in good.ledgers.items():
            lost, doubled = sorted(ledger.lost), [*ledger.doubled, *ledger.unexpected]
            print(f"{self.kind}: {name}: lost {lost[:20]}, doubled {doubled[:20]}", file=sys.stderr)
        async with connect(self.node.address, name="operator", wait_ms=WAIT_MS) as manager:
            for queue in [*QUEUES, *(f"GOOD:{name}" for name in SUBSCRIBERS)]:
                row: Mapping[str, Any] = await manager.admin.queue_show(queue)
                facts = {name: row[name] for name in SHOWN}
                print(f"{self.kind}: {queue}: {facts}", file=sys.stderr)

    # -- starts and ends of the daemon

    async def _be_up(self) -> None:
        """Waits until the daemon accepts clients, and starts it again if it ends first.

        Raises:
            GivenUp: The daemon does not stay up.
        """
        up = asyncio.create_task(self._connect())
        try:
            while not up.done():
                await asyncio.wait([up], timeout=LOOK_S)
                if not (up.done() or self.node.is_running()):
                    self._note_exit()
                    self.node.start()
            await up
        finally:
            up.cancel()

    async def _connect(self) -> None:
        async with connect(self.node.address, name="operator", wait_ms=WAIT_MS):
            return

    def _note_exit(self) -> None:
        """Counts an exit that the campaign did not cause."""
        assert self.node.process is not None
        self._exits += 1
        self._result.unexpected_exits += 1
        code, tail = self.node.process.returncode, self.node.log_tail()
        print(f"{self.kind}: the daemon ended with {code}:\n{tail}", file=sys.stderr)
        if self._exits >= EXITS_MAX:
            raise GivenUp(f"the daemon ended {self._exits} times")

    async def _kill(self) -> None:
        """Kills the daemon, verifies its store, and starts it again."""
        async with self._lives:
            self._is_ours = True
            self.watch.disturb()
            await asyncio.to_thread(self.node.kill)
            self._result.kills += 1
            await self._start_again()

    async def _start_again(self) -> None:
        await self._verify()
        self.node.start()
        await self._be_up()
        self._is_ours = False
        await asyncio.sleep(SETTLE_S)
        self.watch.settle()

    async def _guard(self) -> None:
        """Watches the daemon's memory, and restarts the daemon after an unexpected exit."""
        while True:
            await asyncio.sleep(LOOK_S)
            process = self.node.process
            if self._is_ours or process is None:
                continue
            if self.watch.look_at(process.pid) > RSS_GUARD_MIB:
                print(
                    f"{self.kind}: killed because it uses over {RSS_GUARD_MIB} MiB", file=sys.stderr
                )
                await self._kill()
            elif process.poll() is not None:
                async with self._lives:
                    if process is not self.node.process or self._is_ours:
                        continue  # The campaign itself has killed the daemon.
                    self._note_exit()
                    self._is_ours = True
                    self.watch.disturb()
                    await self._start_again()

    async def _verify(self) -> None:
        command = [QMCTL, "store", "verify", str(self.node.data_dir)]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            self._result.unsound += 1
            print(f"{self.kind}: {done.stdout}{done.stderr}", file=sys.stderr)

    def _add_up(self, good: Good) -> None:
        """Adds the measurements to the result of the campaign."""
        result, watch = self._result, self.watch
        result.lost += good.lost if self._has_drained else 0  # Otherwise, the number is unknown.
        result.doubled += good.doubled
        result.stolen += good.robbed
        result.foreign += good.foreign
        result.operations += watch.operations
        own_mib = watch.rss_max_mib - watch.definitions_mib
        result.rss_max_mib = max(result.rss_max_mib, own_mib)
        result.definitions_mib = max(result.definitions_mib, watch.definitions_mib)
        result.ratios[self.kind] = watch.p99_ratio, watch.median_p99_ms("attack")
        result.p99_ratio, result.p99_ms = max(result.ratios.values())
        if watch.longest_ms > result.longest_stall_ms:
            result.longest_stall_ms, result.longest_what = watch.longest_ms, watch.longest_what
        result.turns_failed += self._log.read_text(errors="replace").count("a turn failed")


class GivenUp(Exception):
    """Raised if the daemon does not stay up."""


async def _start_attackers() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.process.hostile.attackers",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def run(directory: Path, seed: int, plan: Plan) -> Result:
    """Runs the campaign of *seed* in *directory*; returns its results."""
    rng, result = Random(seed), Result()
    for number, kind in enumerate(plan.acts):
        home = directory / f"{number}-{kind}"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        try:
            asyncio.run(Act(kind, home, plan, rng, result).run())
        except* GivenUp:
            print(f"{kind}: given up, the daemon does not stay up", file=sys.stderr)
    return result
