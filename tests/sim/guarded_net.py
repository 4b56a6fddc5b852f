"""Nets whose queue managers log in to each other, while operators grant and revoke their rights.

Each queue manager has a user for each neighbour, bound to it. A link without the right to forward
is blocked, and continues when the right returns. Messages without the right to put become dead
letters. PeerLaw checks where the messages on Q may have come from.
"""

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol import verifier
from qmgr_protocol.codec import unpack
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.queue import Queue
from qmgrd.core.turn import Turns
from tests.sim.ledger import require
from tests.sim.net import STEPS, STRIKE, Net
from tests.sim.store import Change
from tests.sim.user_law import Law

if TYPE_CHECKING:
    from tests.sim.node import Node

VERIFIER = str(verifier.of_nobody(b"a secret of 32 bytes for worlds.", "peer"))
CHANGES = 4.0  # frequency of changed rights, relative to 100 regular steps
FIXED = ("link", "fetch")  # rights on the own name, which are never revoked


class Entered(NamedTuple):
    """A message of another queue manager that a transaction stored on Q."""

    peer: str  # queue manager that sent it
    origin: str  # queue manager that created it


class PeerLaw(Law):
    """The law let_in_nothing for links: a neighbour had the rights for each message it sent.

    In a tree, the origin of a message and the queue manager that stores it determine the neighbour.
    """

    def __init__(self, net: "GuardedNet") -> None:
        super().__init__(net, "")
        self._net = net
        self._of: dict[str, dict[str, set[str]]] = {}  # rights by queue manager and neighbour
        self._earlier: dict[str, dict[str, set[str]]] = {}  # before the last transaction
        self._arrived: dict[str, list[Entered]] = {}
        self._seen: dict[str, set[bytes]] = {}  # UIDs that each store has or had

    def reload(self, node: "Node") -> None:
        """Reads all rights again, because the store was replaced.

        A message that the replaced store had, but this one has not, is checked when it comes again.
        """
        self._of[node.name] = {
            key[keys.REST].decode(): _grants(key, value)
            for key, value in node.store.rows.items()
            if key.startswith(keys.SPACE_USER)
        }
        # Other queues count, too: a dead letter may have been on Q, and may return to it.
        stored = {
            bytes(entries.uid_trailer(entries.decode(value)))
            for key, value in node.store.rows.items()
            if key.startswith(keys.SPACE_MESSAGE)
        }
        self._seen[node.name] = {uid for uid in stored if _origin(uid) != node.name}

    def durable(self, node: "Node", changes: list[Change]) -> None:
        known = self._of.setdefault(node.name, {})
        self._earlier[node.name] = dict(known)
        for key, _, new in changes:
            if key.startswith(keys.SPACE_USER):
                known[key[keys.REST].decode()] = set() if new is None else _grants(key, new)
        self._arrived[node.name] = list(self._new_messages(node, changes))

    def _new_messages(self, node: "Node", changes: list[Change]) -> Iterator[Entered]:
        queue = node.turns.broker.catalogue.queues.get("Q")
        if not isinstance(queue, Queue):
            return
        seen = self._seen.setdefault(node.name, set())
        for key, old, new in changes:
            if not key.startswith(keys.SPACE_MESSAGE) or old is not None or new is None:
                continue
            if int.from_bytes(key[keys.QUEUE_ID], "big") != queue.id:
                continue
            trailer = entries.uid_trailer(entries.decode(new))
            origin = _origin(trailer)
            if origin != node.name and trailer not in seen:
                seen.add(trailer)
                yield Entered(self._net.way(origin, node.name)[-2], origin)

    def released(self, node: "Node", outcome: Outcome) -> None:
        granted: dict[str, set[str]] = {}
        for note in outcome.notes:
            if note.event == "rights granted":
                found = granted.setdefault(note.facts["user"], set())
                where = f"{note.facts['kind']} {note.facts['pattern']}"
                found |= {f"{right} {where}" for right in note.facts["rights"]}
        for peer, origin in self._arrived.pop(node.name, []):
            may = self._of[node.name].get(peer, set()) | self._earlier[node.name].get(peer, set())
            may |= granted.get(peer, set())
            needed = {"put queue Q"} | ({f"forward peer {origin}"} if origin != peer else set())
            self._net.watch.happened["guarded forwards" if origin != peer else "guarded puts"] += 1
            lacking = needed - may
            require(not lacking, "let_in_nothing", f"{peer} lacks {lacking} at {node.name}")


def _origin(uid: bytes) -> str:
    return bytes(uid[records.UID_ORIGIN]).decode()


def _grants(key: bytes, value: bytes) -> set[str]:
    return {" ".join(grant) for grant in unpack(rows.unseal(key, value))["grants"]}


class GuardedNet(Net):
    """A net in which each queue manager has a user for each of its neighbours."""

    def __init__(self, seed: int, *, steps: int = STEPS, turns_type: type[Turns] = Turns) -> None:
        super().__init__(seed, steps=steps, turns_type=turns_type)
        self._rights = Random(f"peers/{seed}")
        for node in self.nodes.values():
            for session in list(node.turns.broker.sessions.values()):
                is_open = session.identity.user == "" and session.path is None and session.store_id
                require(not is_open, "setup", f"{session.name} did not log in at {node.name}")
        self.may_happen(STRIKE | {"rights": _change_rights}, self.faults | {"rights": CHANGES})

    def _define(self) -> None:
        """Creates the users before the links, so that each link logs in."""
        self.user_law = self._law = PeerLaw(self)
        for name, asker in self.askers.items():
            asker.dial()
            self._guard(name)
        self.settle()
        super()._define()

    def _guard(self, name: str) -> None:
        asker = self.askers[name]
        administrator = {"verifier": VERIFIER, "roles": ["administrator"]}
        asker.want(partial(m.UserCreate, user="admin", attributes=administrator))
        for peer in self.neighbours(name):
            bound = {"verifier": VERIFIER, "queue_manager": peer}
            asker.want(partial(m.UserCreate, user=peer, attributes=bound))
            self.grant(name, peer, [*FIXED], "peer", peer)
            self.grant(name, peer, ["put"], "queue", "*@*")
            for change in self.changes(name, peer):
                self.grant(name, peer, *change)

    def changes(self, name: str, peer: str) -> list[tuple[list[str], str, str]]:
        """Returns the rights of a neighbour that change."""
        behind = self.behind(name, peer)
        return [(["put"], "queue", "Q"), *((["forward"], "peer", far) for far in behind)]

    def grant(self, name: str, user: str, rights: list[str], kind: str, pattern: str) -> None:
        """Grants rights. Has no effect if the user has them."""
        self.askers[name].want(lambda i: m.GrantCreate(i, user, "", rights, kind, pattern))

    def revoke(self, name: str, user: str, rights: list[str], kind: str, pattern: str) -> None:
        """Revokes rights. Is refused if the user does not have them."""
        self.askers[name].want(lambda i: m.GrantDelete(i, user, "", rights, kind, pattern))

    def put_back(self, node: "Node") -> None:
        super().put_back(node)
        self._law.reload(node)

    def look_after(self) -> None:
        """Grants all rights, in addition to the other work of operators."""
        super().look_after()
        for name in self.nodes:
            asker, users = self.askers[name], self._law._of.get(name, {})
            for peer in self.neighbours(name):
                for change in self.changes(name, peer):
                    rights, kind, pattern = change
                    if (
                        f"{rights[0]} {kind} {pattern}" not in users.get(peer, ())
                        and not asker.todo
                    ):
                        self.grant(name, peer, *change)


def _change_rights(net: GuardedNet) -> bool:
    """Grants or revokes a right of a neighbour."""
    random = net._rights
    name = random.choice(list(net.nodes))
    peer = random.choice(net.neighbours(name))
    net.askers[name].dial()
    change = random.choice(net.changes(name, peer))
    (net.grant if random.random() < 0.6 else net.revoke)(name, peer, *change)
    return True
