"""The parts of a world: its queues, links, producers and consumers.

    EWR ──┐            each edge: LOCAL, and FLIGHTS@NYC, DELAYS@NYC, LATE@NYC, SCRATCH@NYC, ...
    JFK ──┼──▶ NYC     the hub:   FLIGHTS, DELAYS, LATE, SCRATCH, WORK, RING, LOCAL, and
    LGA ──┘                       REPLIES@EWR back

DELAYS may be small. LATE may not exist at first. SCRATCH may be purged, deleted and created again.
Messages that fail too often on WORK or LOCAL become dead letters. RING evicts its oldest messages
when it is full.
"""

from typing import TYPE_CHECKING, Any

from qmgr_protocol import messages as m
from qmgr_protocol.record import Uid
from tests.sim import scenario
from tests.sim.app import App
from tests.sim.consumer import Consumer, Wanted
from tests.sim.ledger import BACKOUT, DEAD_LETTERS, GROUP_QUEUES, require
from tests.sim.producer import Producer
from tests.sim.scenario import EDGES, HUB, PORT
from tests.sim.worker import Worker

if TYPE_CHECKING:
    from tests.sim.world import World

HUB_QUEUES = ("FLIGHTS", "DELAYS", "LATE", "SCRATCH", "WORK", "RING", "GROUPS")


def peer_of(name: str) -> str:
    """Returns the queue manager to which *name* has a link."""
    return HUB if name != HUB else "EWR"


def remotes(name: str) -> list[str]:
    """Returns the remote queues of *name*."""
    return ["REPLIES@EWR"] if name == HUB else [f"{queue}@{HUB}" for queue in HUB_QUEUES]


def queues(world: "World", name: str) -> dict[str, dict[str, Any]]:
    """Returns the local queues of *name* and their attributes."""
    if name != HUB:
        return {"LOCAL": {}, "REPLIES": {}} if name == "EWR" else {"LOCAL": {}}
    found: dict[str, dict[str, Any]] = {queue: {} for queue in ("LOCAL", *HUB_QUEUES)}
    if world.scenario.depth_max:
        found["DELAYS"] = {"depth_max": world.scenario.depth_max}
    found["RING"] = {"depth_max": 8, "overflow": world.scenario.overflow}
    if world.scenario.late:
        del found["LATE"]
    return found


def define(world: "World") -> None:
    """Creates queues and links before any fault occurs."""
    for name in world.askers:
        world.link_attributes[name] = scenario.link_attributes(world.random)
    if world.random.random() < 0.3:
        world.link_attributes[peer_of(HUB)]["fetch"] = True
    for name, asker in world.askers.items():
        asker.dial()
        world.nodes[peer_of(name)].allow(name)
        for queue, attributes in queues(world, name).items():
            if queue in GROUP_QUEUES:
                attributes = scenario.group_attributes(world.random)
                world.ledger.caps_ms[name, queue] = attributes["expiry_max_ms"]
            _create(world, name, queue, attributes)
        _create(world, name, BACKOUT, {})
        attributes = world.link_attributes[name]
        if attributes["ordered"]:
            world.watch.in_order.add((name, peer_of(name)))
        elif _paths(world, name) > 1:
            world.watch.unordered.add((name, peer_of(name)))
        make_link(world, name)
    world.settle()
    require(not any(asker.todo for asker in world.askers.values()), "setup", "is not done")


def _is_fetched(world: "World", name: str) -> bool:
    return name == HUB and bool(world.link_attributes[peer_of(HUB)].get("fetch"))


def _paths(world: "World", name: str) -> int:
    """Returns the number of paths of *name*'s link. If the peer fetches, the peer decides this."""
    dialler = peer_of(name) if _is_fetched(world, name) else name
    count: int = world.link_attributes[dialler]["connections"]
    return count


def addresses(world: "World", name: str) -> list[str]:
    """Returns the addresses of *name*'s link, or none if its peer dials and fetches."""
    return [] if _is_fetched(world, name) else [f"{peer_of(name)}:{PORT}"]


def make_link(world: "World", name: str) -> None:
    """Creates the link of *name*, and the remote queues that use it."""
    peer = peer_of(name)
    attributes = {"addresses": addresses(world, name), **world.link_attributes[name]}
    world.askers[name].want(lambda i: m.LinkCreate(i, peer, attributes))
    for queue in remotes(name):
        _create(world, name, queue, {})


def _create(world: "World", name: str, queue: str, attributes: dict[str, Any]) -> None:
    world.askers[name].want(lambda i: m.QueueCreate(i, queue, attributes))


def _alter(world: "World", name: str, queue: str, changes: dict[str, Any]) -> None:
    world.askers[name].want(lambda i: m.QueueAlter(i, queue, changes))


def populate(world: "World") -> None:
    """Creates clients at all queue managers."""
    random = world.random
    shared: list[Uid] = []
    for name in world.nodes:
        own = list(queues(world, name))
        every = [*remotes(name), *own]
        for number in range(random.randint(0, 2)):
            some = random.sample(every, random.randint(1, len(every)))
            puts = scenario.producer_habits(random, some, shared)
            world.producers.append(Producer(world, f"{name}-p{number}", name, puts))
        for number in range(random.randint(0, 2)):
            some = random.sample(every, random.randint(1, len(every)))
            puts = scenario.producer_habits(random, some, shared)
            reads = scenario.consumer_habits(random, random.choice(own))
            world.apps.append(App(world, f"{name}-a{number}", name, puts, reads))
        for number in range(random.choice([0, 1, 1, 2])):
            some = random.sample(every, random.randint(1, len(every)))
            works = scenario.worker_habits(random, random.choice(own), some)
            world.workers.append(Worker(world, f"{name}-w{number}", name, works))
    homes = [(HUB, "LOCAL"), ("EWR", "REPLIES"), *((name, "LOCAL") for name in EDGES)]
    homes += [(HUB, queue) for queue in HUB_QUEUES]
    homes += [(name, queue) for name in (HUB, *EDGES) for queue in (BACKOUT, DEAD_LETTERS)]
    for where, queue in homes:
        for number in range(random.choice([1, 1, 2]) + (queue == "GROUPS")):
            reads = scenario.consumer_habits(random, queue)
            world.consumers.append(Consumer(world, f"{queue}-c{number}", where, reads))
            if random.random() < 0.3:
                wants = scenario.consumer_habits(random, queue)
                wants.wanted = random.choice([Wanted(b"c1"), Wanted(kind="a")])
                wants.order = m.PHYSICAL
                world.consumers.append(Consumer(world, f"{queue}-s{number}", where, wants))


def operate(world: "World", name: str) -> None:
    """Lets an operator examine, inhibit, purge and delete objects that may be lost."""
    random, asker = world.random, world.askers[name]
    asker.dial()
    if len(asker.todo) > 3:
        return
    dice = random.random()
    if 0.6 < dice < 0.7:
        _retry(world, name)
    elif 0.45 < dice < 0.6:
        _intervene(world, name)
    elif name == HUB and dice < 0.05:
        _remake_link(world)
    elif name == HUB and dice < 0.15:
        world.ledger.purges.add((HUB, "SCRATCH"))
        purge: Any = m.QueuePurge(0, "SCRATCH")
        delete: Any = m.QueueDelete(0, "SCRATCH", True)
        scratch, late = m.QueueCreate(0, "SCRATCH"), m.QueueCreate(0, "LATE")
        chosen = random.choice([purge, delete, scratch, late])
        asker.want(lambda i: chosen._replace(request_id=i))
    elif dice > 0.85:
        _inhibit(world, name)
    else:
        show: Any = m.QueueShow(0, "LOCAL")
        listed: Any = m.LinkList(0)
        chosen = random.choice([show, listed, m.QueueList(0), m.Status(0), m.Browse(0, "LOCAL")])
        asker.want(lambda i: chosen._replace(request_id=i))


def _retry(world: "World", name: str) -> None:
    """Moves dead letters back to their queues, and sometimes cancels the move."""
    random, asker = world.random, world.askers[name]
    queue = random.choice([DEAD_LETTERS, BACKOUT])
    rate = random.choice([0, 0, 5])

    def take(answer: Any) -> None:
        if type(answer) is m.Ok and random.random() < 0.2:
            asker.want(lambda i: m.JobCancel(i, answer.value["job"]))

    asker.want(lambda i: m.QueueMove(i, queue, "", rate=rate), take)


def _intervene(world: "World", name: str) -> None:
    """Lets an operator list the groups of a queue, and alter one of them."""
    random = world.random
    queue = random.choice(GROUP_QUEUES if name == HUB else ("LOCAL",))

    def take(answer: Any) -> None:
        if type(answer) is m.Ok and (rows := answer.value["groups"]):
            row = random.choice(rows)
            actions = ["pause", "resume", "skip", "reassign", "close"]
            if row["state"] in ("paused", "parked"):
                actions = ["resume", "skip", "close"]
            alter_group(world, name, queue, row, random.choice(actions))

    world.askers[name].want(lambda i: m.GroupList(i, queue, b"", 20), take)


def alter_group(
    world: "World", name: str, queue: str, row: dict[str, Any], action: str, number: int = 0
) -> None:
    """Lets an operator alter a group, given its *row* in the list."""
    group_id, ledger = bytes.fromhex(row["group"]), world.ledger
    key = (name, queue, group_id)
    if action in ("skip", "close"):
        world.watch.unordered.add((name, queue))  # A link continues after such a refusal.
    if action == "skip":
        number = number or row["next"] + world.random.choice([1, 1, 2])
        ledger.skipped[key] = max(number, ledger.skipped.get(key, 0))
    elif action == "close":
        ledger.closed.add(key)
    world.watch.happened[f"groups to {action}"] += 1
    world.askers[name].want(lambda i: m.GroupAlter(i, queue, group_id, action, number))


def tidy_groups(world: "World", name: str, queue: str) -> None:
    """Lets an operator end the groups of a queue."""
    view = world.watch.views[name]
    numbers = {queue_name: number for number, (queue_name, _) in view.queues.items()}

    def take(answer: Any) -> None:
        for row in answer.value["groups"] if type(answer) is m.Ok else ():
            group = view.groups[numbers[queue], bytes.fromhex(row["group"])]
            if row["state"] in ("paused", "parked"):
                action = world.random.choice(["resume", "close"])
                alter_group(world, name, queue, row, action)
            elif not row["next_is_here"] and group.there:
                alter_group(world, name, queue, row, "skip", min(group.there))
            elif not row["next_is_here"] and row["last"]:
                alter_group(world, name, queue, row, "skip", row["last"] + 1)
            elif not row["last"]:
                alter_group(world, name, queue, row, "close")

    world.askers[name].want(lambda i: m.GroupList(i, queue, b"", 1_000), take)


def _inhibit(world: "World", name: str) -> None:
    """Inhibits puts or gets of a random queue, or allows them again."""
    random = world.random
    queue = random.choice([*queues(world, name), *remotes(name), f"@{peer_of(name)}"])
    changes = {"put_inhibit": random.random() < 0.3}
    if queue not in remotes(name):
        changes["get_inhibit"] = random.random() < 0.3
    if changes["put_inhibit"] and queue != "LOCAL":
        world.watch.unordered.add((name, queue))  # A link continues after such a refusal.
    _alter(world, name, queue, changes)


def _remake_link(world: "World") -> None:
    """Deletes the hub's link with its pending messages, and creates it again."""
    world.ledger.purges.add(("EWR", "REPLIES"))
    asker = world.askers[HUB]
    asker.want(lambda i: m.QueueDelete(i, "REPLIES@EWR"))
    asker.want(lambda i: m.LinkDelete(i, "EWR", True))
    make_link(world, HUB)


def calm_down(world: "World") -> None:
    """Lets all clients finish without errors. Creates missing queues, and lifts all inhibits."""
    _read_anew(world)
    readers = [client.habits for client in world.consumers]
    for reads in readers + [app.reading for app in world.apps]:
        reads.slow = reads.release = reads.drop = reads.twice = reads.renew = 0.0
        reads.batch_max, reads.whole = 100, False
    for producer in world.producers:
        producer.habits.twice = 0.0
        producer.habits.total = min(producer.habits.total, producer.made + 20)
    for worker in world.workers:
        habits = worker.habits
        habits.idle = habits.backout = habits.wrong = 0.0
        habits.puts.total = min(habits.puts.total, worker.made + 2)
    for app in world.apps:
        app.units.total = 0
        app.producing.total = min(app.producing.total, app.made + 20)
    for queue in ("LATE", "SCRATCH"):
        _create(world, HUB, queue, {})
    for name in world.nodes:
        for queue in (*queues(world, name), "LATE", f"@{peer_of(name)}"):
            _alter(world, name, queue, {"put_inhibit": False, "get_inhibit": False})
        for queue in remotes(name):
            _alter(world, name, queue, {"put_inhibit": False})


def _read_anew(world: "World") -> None:
    """Lets all readers of groups start again, and accept incomplete groups."""
    for consumer in world.consumers:
        if consumer.habits.order != m.PHYSICAL or consumer.habits.whole:
            consumer.hang_up()
    for app in world.apps:
        if app.reading.order != m.PHYSICAL:
            app.hang_up()
