"""Accounts in the simulator: which queues keep and export them, and checks of two histories.

The invariants of a single history are in tests/qmgrd/core/replay.py.
"""

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from tests.sim.exporter import Exporter
from tests.sim.ledger import require

if TYPE_CHECKING:
    from tests.sim.chance import Chance

# share of queue managers that keep accounts on all queues until operators change this
KEPT = 0.5
EXPORTED = 0.5  # share of these queue managers whose history is exported
ALTERED = 0.3  # share of the worlds in which operators turn accounts on and off
ALTERS = 0.004  # in these worlds, the share of the steps that alter an account
ACTS = 0.1  # share of the steps in which each exporter acts


def kept(config: Config, chances: Random) -> Config:
    """Returns *config*, sometimes with accounts on all queues."""
    if chances.random() >= KEPT:
        return config
    given = config.model_dump(exclude_unset=True)
    given["queue_defaults"] = given.get("queue_defaults", {}) | {"accounting": "on"}
    given["accounting"] = {
        "bytes_max": chances.choice([64 << 10, 1 << 30, 1 << 30]),
        "age_max_ms": chances.choice([60_000, 7 * 86_400_000, 7 * 86_400_000]),
    }
    return Config.model_validate(given)


def populate(world: "Chance") -> None:
    """Exports some histories, and decides whether operators turn some accounts on and off."""
    chances = world.chances
    world.alters = chances.random() < ALTERED
    for node in world.nodes.values():
        node.replay.may_alter = world.alters
    if "restore" in world.faults:
        return  # An export would have to start again from the beginning.
    for name, node in world.nodes.items():
        is_kept = node.config.queue_defaults.accounting == "on"
        if is_kept and chances.random() < EXPORTED:
            world.exporters.append(Exporter(world, chances, name))


def act(world: "Chance") -> None:
    """Lets exporters and operators act, in addition to the normal step."""
    chances = world.chances
    for exporter in world.exporters:
        if chances.random() < ACTS:
            exporter.act()
    if world.alters and chances.random() < ALTERS:
        node = chances.choice(list(world.nodes.values()))
        if node.up:
            queue = chances.choice(list(node.turns.broker.catalogue.by_id.values()))
            changes = {"accounting": chances.choice(["on", "off", None])}
            alter = partial(m.QueueAlter, queue=queue.name, attributes=changes)
            world.askers[node.name].want(alter)


def look(world: "Chance", *, is_at_rest: bool = False) -> None:
    """Checks histories against leases, and the histories of links against those of their peers."""
    for node in world.nodes.values():
        if node.up:
            broker = node.turns.broker
            node.replay.look(broker.context.history, broker.catalogue.by_id.values())
        found, node.replay.transferred = node.replay.transferred, []
        for peer, uid in found:
            there = world.nodes[peer].replay
            if there.is_whole and node.replay.is_whole:
                fact = f"{uid} was transferred by {node.name}, and never arrived at {peer}"
                require(uid in there.ever, "transferred_has_come", fact)
        world.watch.happened["events"] += node.replay.events
        node.replay.events = 0
    if is_at_rest:
        for exporter in world.exporters:
            exporter.balance()
            world.watch.happened["exported"] += len(exporter.written)
