"""The faults of a world. Each function returns whether a target was found."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from qmgr_protocol import messages as m
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from tests.sim.app import App
from tests.sim.ledger import body_at
from tests.sim.node import Node, PeerPort
from tests.sim.producer import Producer
from tests.sim.scenario import EDGES, HUB, PORT
from tests.sim.wire import Wire
from tests.sim.worker import Worker

if TYPE_CHECKING:
    from tests.sim.world import World

DISK_BYTES = 1 << 40
HOUR_MS = 3_600_000
WALL_JUMPS_MS = (-10 * 8_760 * HOUR_MS, -HOUR_MS, -1_000, 1_000, HOUR_MS, 8_760 * HOUR_MS)


def _some_wire(world: "World") -> Wire | None:
    """Returns a random wire. Half of the choices are wires of links, because links are few."""
    links = [wire for wire in world.wires if isinstance(wire.flows[0].port, PeerPort)]
    some = links if links and world.random.random() < 0.5 else world.wires
    return world.random.choice(some) if some else None


def _some_node(world: "World") -> Node | None:
    running = [node for node in world.nodes.values() if node.up]
    return world.random.choice(running) if running else None


def _delay_news(world: "World", wire: Wire) -> None:
    """Delays what one end receives: the end of the connection, and the data before it."""
    if world.random.random() < 0.5:
        world.random.choice(wire.flows).clogged = True


def cut(world: "World") -> bool:
    """Breaks a connection after any byte."""
    wire = _some_wire(world)
    if wire is None:
        return False
    wire.cut(world.random)
    _delay_news(world, wire)
    world.note("wire", "cut")
    return True


def half_open(world: "World") -> bool:
    """Closes the dialling end, while the other end stays open for a while."""
    wire = _some_wire(world)
    if wire is None:
        return False
    full = [wire for wire in world.wires if wire.flows[1].data and not wire.flows[1].end]
    lost, late = world.random.choice(full or [wire]).flows
    lost.data.clear()
    lost.end = lost.end or "connection reset"
    late.end = late.end or "connection reset"
    late.clogged = True
    lost.deliver(1)
    world.note("wire", "half open")
    return True


def dark(world: "World") -> bool:
    """Stops all data of a connection, like an unplugged cable."""
    wire = _some_wire(world)
    if wire is None:
        return False
    wire.go_dark()
    world.note("wire", "dark")
    return True


def clog(world: "World") -> bool:
    """Blocks some streams until they are released."""
    flows = [flow for wire in world.wires for flow in wire.flows if not flow.over]
    for flow in world.random.sample(flows, min(len(flows), world.random.randint(1, 4))):
        flow.clogged = True
    return bool(flows)


def dial_fails(world: "World") -> bool:
    """Makes a link's connection attempt fail, because nobody listens."""
    if not world.dials:
        return False
    world.answer_dial(world.random.randrange(len(world.dials)), fails=True)
    return True


def crash(world: "World") -> bool:
    """Kills a queue manager between two turns."""
    node = _some_node(world)
    if node is None:
        return False
    world.note(node.name, "crash between turns")
    node.die()
    return True


def crash_before(world: "World") -> bool:
    """Kills a queue manager before its commit is durable."""
    return _crash_in_turn(world, "before")


def crash_after(world: "World") -> bool:
    """Kills a queue manager after its commit is durable, but before it sends the outcome."""
    return _crash_in_turn(world, "after")


def _crash_in_turn(world: "World", when: str) -> bool:
    node = _some_node(world)
    if node is None or not node.turns.has_work:
        return False
    node.store.crash = when
    node.turn()
    return True


def stop(world: "World") -> bool:
    """Stops a queue manager cleanly, and sometimes kills it during the stop."""
    node = _some_node(world)
    if node is None:
        return False
    world.note(node.name, "stops in good order")
    if world.random.random() < 0.2:
        node.store.crash = world.random.choice(["before", "after"])
    node.stop()
    return True


def disk_fills(world: "World") -> bool:
    """Fills a disk, or frees space on a disk."""
    node = world.random.choice(list(world.nodes.values()))
    node.store.disk_free_bytes = 0 if node.store.disk_free_bytes else DISK_BYTES
    world.note(node.name, f"has {node.store.disk_free_bytes} bytes of disk")
    return True


def rot(world: "World") -> bool:
    """Changes a byte of a stored message that has not been consumed or sent."""
    name, view = world.random.choice(list(world.watch.views.items()))
    found = [
        (handle, held)
        for handle, held in view.held.items()
        if (name, held.put.serial) not in world.ledger.rotten
    ]
    if not found:
        return False
    (queue_id, arrival), held = world.random.choice(found)
    rows = world.nodes[name].store.rows
    places = (
        keys.message(queue_id, lane, held.priority, arrival)
        for lane in (*keys.LANES_READY, keys.LANE_DELAYED)
    )
    key = next(key for key in places if key in rows)
    entry = entries.decode(rows[key])
    # The change is in the body, whose first bytes have no meaning here.
    start = body_at(entries.record(world.nodes[name].store, entry))
    if entry.in_rows:
        key = keys.body(int.from_bytes(entry.rest[:8], "big"), 0)
    else:
        start += entries.HEAD_BYTES + len(entry.target.encode())
    value = bytearray(rows[key])
    value[start + world.random.randrange(4)] ^= 1 << world.random.randrange(8)
    rows[key] = bytes(value)
    world.ledger.rotten.add((name, held.put.serial))
    world.note(name, f"message {held.put.serial} rots")
    return True


def turn_fails(world: "World") -> bool:
    """Plants a bug in a turn."""
    node = _some_node(world)
    if node is None:
        return False
    node.fail_turn()
    return True


def peers_turn_fails(world: "World") -> bool:
    """Plants a bug that seems to be caused by a peer."""
    node = _some_node(world)
    if node is None or not node.ports:
        return False
    node.fail_turn(world.random.choice(list(node.ports)))
    return True


def wall_jumps(world: "World") -> bool:
    """Changes the clock of a machine."""
    node = world.random.choice(list(world.nodes.values()))
    node.wall_shift_us += world.random.choice(WALL_JUMPS_MS) * 1_000
    world.note(node.name, "its wall clock jumps")
    return True


def time_jumps(world: "World") -> bool:
    """Lets time pass without any event."""
    longest_ms = world.random.choice([500, 60_000, 900_000, 2 * HOUR_MS])
    world.pass_to(world.now_ms + world.random.randint(1, longest_ms))
    return True


def link_stops(world: "World") -> bool:
    """Lets an operator stop and start a link."""
    name = world.random.choice([HUB, *EDGES])
    peer = HUB if name != HUB else "EWR"
    asker = world.askers[name]
    asker.dial()
    asker.want(lambda i: m.LinkStop(i, peer))
    if world.random.random() < 0.5 and asker.is_open:
        asker.send(m.LinkStart(asker.next_id(), peer))  # The start may happen in the same turn.
    asker.want(lambda i: m.LinkStart(i, peer))
    return True


def link_alters(world: "World") -> bool:
    """Lets an operator set wrong addresses for a link, and correct them later."""
    name = world.random.choice([HUB, *EDGES])
    peer = HUB if name != HUB else "EWR"
    asker = world.askers[name]
    asker.dial()
    for host in (world.random.choice([name, "JFK", "nobody"]), peer):
        addresses = {"addresses": [f"{host}:{PORT}"]}
        asker.want(partial(m.LinkAlter, link=peer, attributes=addresses))
    return True


def program_forgets(world: "World") -> bool:
    """Kills a client. The client starts again as another producer."""
    programs: list[Producer | App | Worker] = [*world.producers, *world.apps, *world.workers]
    if programs:
        world.random.choice(programs).forget()
    return bool(programs)


def client_hangs_up(world: "World") -> bool:
    """Lets a client close its connection and dial again."""
    client = world.random.choice(world.clients)
    wire = client.wire
    if wire is None:
        return False
    client.hang_up()
    _delay_news(world, wire)
    return True


STRIKE: dict[str, Callable[["World"], bool]] = {
    function.__name__.replace("_", " "): function
    for function in (
        cut,
        half_open,
        dark,
        clog,
        dial_fails,
        crash,
        crash_before,
        crash_after,
        stop,
        disk_fills,
        rot,
        turn_fails,
        peers_turn_fails,
        wall_jumps,
        time_jumps,
        link_stops,
        link_alters,
        program_forgets,
        client_hangs_up,
    )
}
