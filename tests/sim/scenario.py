"""The choices of a seed: limits of the queue managers, habits of the clients, and faults.

Each seed includes some kinds of faults and omits others. Small limits are as likely as the
defaults, because most bugs need two rare conditions at the same time.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.record import Uid
from tests.sim import consumer, producer, worker
from tests.sim.ledger import BACKOUT, GROUP_QUEUES
from tests.sim.producer import Habits as ProducerHabits

HUB = "NYC"
EDGES = ("EWR", "JFK", "LGA")
PORT = 7470

# Maps each kind of step to its frequency relative to 100 regular steps.
FAULTS = {
    "cut": 1.0,
    "half open": 1.0,
    "dark": 0.3,
    "clog": 2.0,
    "dial fails": 1.0,
    "crash": 0.8,
    "crash before": 0.8,
    "crash after": 0.8,
    "stop": 0.4,
    "disk fills": 0.3,
    "rot": 0.2,
    "turn fails": 0.4,
    "peers turn fails": 0.2,
    "wall jumps": 0.5,
    "time jumps": 0.3,
    "link stops": 0.4,
    "link alters": 0.4,
    "program forgets": 0.4,
    "client hangs up": 0.8,
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """The choices of one seed."""

    steps: int
    faults: dict[str, float]
    depth_max: int  # depth_max of the hub's queue DELAYS; 0 = no limit
    late: bool  # True if the queue LATE does not exist at first
    overflow: str  # overflow action of the hub's queue RING


def choose(random: Random, steps: int) -> Scenario:
    """Returns the scenario of a seed."""
    chosen = {kind: rate for kind, rate in FAULTS.items() if random.random() < 0.55}
    trouble = random.choice([0.1, 0.3, 1])  # With many faults, little work gets done.
    faults = {kind: trouble * rate * random.choice([0.5, 1, 3]) for kind, rate in chosen.items()}
    depth_max = random.choice([0, 0, 3, 20])
    late = random.random() < 0.3
    overflow = random.choice(["discard-oldest", "dead-letter-oldest"])
    return Scenario(steps, faults, depth_max, late, overflow)


def config(random: Random, name: str) -> Config:
    """Returns a configuration with small limits or the defaults."""
    link_window = random.choice([1, 2, 5, 20, 4096])
    put_window = random.choice([2, 8, 64, 4096])
    return Config.model_validate(
        {
            "queue_manager": {
                "name": name,
                "downtime_max_ms": random.choice([0, 60_000, 86_400_000]),
            },
            "limits": {
                "put_window_messages": max(put_window, random.choice([1, 1, 2]) * link_window),
                "turn_requests": random.choice([1, 3, 50, 4096]),
                "turn_bytes": random.choice([1024, 16 << 20]),
                "turn_rows": random.choice([1, 20, 5_000]),
                "turn_ms": random.choice([1, 4, 50]),
            },
            "queue_defaults": {"leases_max": random.choice([1, 4, 30, 10_000])},
            "unit": {
                "messages_max": random.choice([5, 2_000, 2_000]),
                "age_max_ms": random.choice([500, 60_000, 300_000]),
            },
            "producer": {
                "retention_ms": random.choice([600_000, 30 * 86_400_000]),
                "producers_max": random.choice([8, 100_000, 100_000]),
            },
            "link": {
                "window_messages": link_window,
                "window_bytes": random.choice([1024, 3_000, 8 << 20]),
                "commit_messages": random.choice([1, 2, 7, 500]),
                "commit_interval_ms": random.choice([0, 5, 50, 3_000]),
                "redial_min_ms": random.choice([1, 100, 5_000]),
                "redial_max_ms": random.choice([5_000, 30_000]),
                "stall_ms": random.choice([200, 3_000, 10_000]),
            },
        }
    )


def producer_habits(random: Random, queues: list[str], shared: list[Uid]) -> ProducerHabits:
    """Returns the habits of a producer for *queues*; some producers share UIDs."""
    uids = shared if random.random() < 0.3 else []
    return producer.Habits(
        queues=queues,
        total=random.choice([10, 60, 150]),
        batch_max=random.choice([1, 5, 30]),
        body_bytes_max=random.choice([20, 200, 900]),
        priorities=random.choice([1, 1, 3, 10]),
        own_uids=random.random() < 0.3,
        twice=random.choice([0, 0, 0.1]),
        large=random.choice([0, 0, 0.1]),
        uids=uids,
        origin="SHARED" if uids is shared else f"APP{random.randrange(10**6)}",
        timed=random.choice([0, 0, 0.1, 0.5]),
        volatile=random.choice([0, 0, 0.2]),
        asked_for=random.choice([0, 0.3]),
        grouped=random.choice([0, 0.4, 0.9]),
    )


def attributes(random: Random) -> dict[str, Any]:
    """Returns the attributes of a queue whose messages may fail, expire or be evicted."""
    found: dict[str, Any] = {
        "backout_threshold": random.choice([0, 1, 3]),
        "delivery_limit": random.choice([0, 2, 3]),
        "retry_initial_ms": random.choice([0, 100, 2_000]),
        "retry_max_ms": 30_000,
        "retry_jitter_percent": random.choice([0, 10, 100]),
        "expiry_action": random.choice(["discard", "dead-letter"]),
        "expiry_max_ms": random.choice([0, 0, 0, 30_000]),
        "dedup_retention_ms": random.choice([0, 0, 5_000]),
    }
    if random.random() < 0.5:
        found["backout_queue"] = BACKOUT
    if random.random() < 0.4:
        found |= {"breaker_percent": 50, "breaker_messages_min": 5, "breaker_pause_ms": 1_000}
    return found


def link_attributes(random: Random) -> dict[str, Any]:
    """Returns the number of paths of a link, and whether the link keeps the order."""
    return {"connections": random.choice([1, 1, 1, 2, 3]), "ordered": random.random() < 0.2}


def group_attributes(random: Random) -> dict[str, Any]:
    """Returns the attributes of a queue of groups."""
    found = attributes(random) | {"group_incomplete_ms": random.choice([0, 0, 0, 60_000])}
    if random.random() < 0.5:
        found |= {"expiry_max_ms": 0, "breaker_percent": 0}
    return found


def group_order(random: Random, queue: str) -> tuple[int, bool]:
    """Returns the order of gets from *queue*, and whether groups must be complete."""
    if queue not in GROUP_QUEUES:
        return m.PHYSICAL, False
    orders = [m.LOGICAL, m.PINNED, m.PINNED]
    if queue != "GROUPS":
        orders += [m.PHYSICAL] * 3
    return random.choice(orders), random.random() < 0.15


def worker_habits(random: Random, source: str, queues: list[str]) -> worker.Habits:
    """Returns the habits of a client that gets from *source* and puts on *queues* in units."""
    puts = producer_habits(random, queues, [])
    puts.own_uids = False
    puts.total = random.choice([5, 20])
    reads = m.LOGICAL if source in GROUP_QUEUES and random.random() < 0.5 else m.PHYSICAL
    return worker.Habits(
        puts,
        source,
        lease_ms=random.choice([200, 5_000, 60_000]),
        steps_max=random.choice([2, 6]),
        batch_max=random.choice([1, 5]),
        backout=random.choice([0.1, 0.4]),
        wrong=random.choice([0, 0.1, 0.3]),
        idle=random.choice([0, 0.3, 0.8]),
        order=reads,
    )


def consumer_habits(random: Random, queue: str) -> consumer.Habits:
    """Returns the habits of a consumer of *queue*."""
    order, whole = group_order(random, queue)
    habits = consumer.Habits(
        queue=queue,
        credit_messages=random.choice([1, 5, 50]),
        credit_bytes=random.choice([500, 100_000]),
        lease_ms=random.choice([200, 5_000, 60_000]),
        batch_max=random.choice([1, 5, 50]),
        gets=random.random() < 0.25,
        slow=random.choice([0, 0.3, 0.9]),
        release=random.choice([0, 0.2, 0.5]),
        twice=random.choice([0, 0.2]),
        drop=random.choice([0, 0, 0.1]),
        renew=random.choice([0, 0.3, 0.5]),
        delay=random.choice([0, 0.3]),
        order=order,
        whole=whole,
    )
    # A new random call is not allowed here, so that the older seeds do not change.
    return replace(habits, later=habits.lease_ms == 5_000)
