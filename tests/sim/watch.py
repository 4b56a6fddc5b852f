"""Checks of a running world, at the two points where all effects are visible.

    durable    the changes of a transaction, at the instant it is on disk (durable.py)
    released   each message that leaves a queue manager, after the commit that caused it (here)

The checks know the layout of the stored rows and the messages of the protocol, but not the core.
view.py stores the state, fate.py judges why a message left its queue, and order.py judges the order
of deliveries. The docstring of the package lists the invariants.
"""

import re
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgr_protocol.window import ids_of
from qmgrd.core.context.context import Outcome
from qmgrd.core.context.producer import Producer
from qmgrd.core.link.inbox import InboundPath, LinkInbox
from qmgrd.core.peer import Peer
from tests.sim import fate, groups, order
from tests.sim.durable import Durable
from tests.sim.ledger import DEAD_LETTERS, Ledger, is_watched, require
from tests.sim.node import Node
from tests.sim.view import Handed, Handle, Held, View

FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.LINK_FENCED, ErrorCode.SESSION_FENCED)
# The only valid reason to refuse a link: an operator gave it another queue manager's address
LED_ASTRAY = re.compile(r"^PEER_WRONG: the queue manager at (\w+):\d+ is \1, not ")
# A link closes if its peer has no room for a new stream. The link then dials again.
ORDERLY = (*FENCED, ErrorCode.SHUTTING_DOWN, ErrorCode.CANCELLED, ErrorCode.STORE_FULL)


class Watch(Durable):
    """All invariants.

    ``unordered`` has the queues and links that do not keep the order of producers. ``in_order`` has
    the links that keep the order even if their peers refuse messages.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.unordered: set[tuple[str, str]] = set()  # queue manager, and queue or peer
        self.in_order: set[tuple[str, str]] = set()  # queue manager and peer
        self.refusals: dict[str, int] = {}

    def released(self, node: Node, outcome: Outcome) -> None:
        """Checks the output of *node* for a durable turn."""
        view = self.of(node)
        hostile = {number for name, number in self.ledger.hostile if name == node.name}
        self._closes(node, view, outcome, hostile)
        for note in outcome.notes:
            self.happened[note.event] += 1
            refused = note.event == "link refused" and not LED_ASTRAY.search(note.facts["why"])
            require(not refused, "no_link_is_refused", f"{node.name}: {note.facts}")
        gone = {connection for connection, _ in outcome.closes}
        for connection, message in outcome.sends:
            if connection not in hostile:
                self._sends(node, view, connection, message, gone)

    def _closes(self, node: Node, view: View, outcome: Outcome, hostile: set[int]) -> None:
        for connection, goaway in outcome.closes:
            if connection in hostile:
                continue
            if goaway.code in FENCED:
                view.fenced.add(connection)
            late = goaway.code == ErrorCode.STREAM_UNKNOWN and connection in view.fenced
            fact = f"{node.name} closes {connection}: {goaway.text}"
            known = late or goaway.code in ORDERLY
            require(known or goaway.code >= 700, "peers_keep_the_protocol", fact)

    def _sends(self, node: Node, view: View, connection: int, message: Any, gone: set[int]) -> None:
        kind = type(message)
        if kind is m.Deliver:
            self._deliver(node, view, connection, message, gone)
        elif kind is m.Blocked:
            self.happened["blocked"] += 1
        elif kind is m.Committed:
            self._commit(node, view, connection, message.stream, message.commit_id)
            self._holds(node, view, connection, message)
        elif kind is m.Ok and type(message.value) is list and len(message.value) >= 4:
            self._commit(node, view, connection, message.value[0], message.value[1])

    def _commit(self, node: Node, view: View, connection: int, number: int, commit_id: int) -> None:
        stream = _stream(node, connection, number)
        if stream is None:
            return
        identity = stream.key[1:]
        row = view.rows.get(stream.key)
        stored = 0
        if row is not None:
            stored = unpack(row)[1 if isinstance(stream, LinkInbox) else 0]
        fact = f"{commit_id} leaves {node.name} on {identity.hex()}, {stored} is stored"
        require(commit_id <= stored, "acked_is_durable", fact)
        told = view.told.get(identity, 0)
        require(commit_id >= told, "commit_id_grows", f"{fact}, {told} was sent")
        view.told[identity] = commit_id
        self.happened["commits"] += isinstance(stream, LinkInbox)
        for seq_id in range(told + 1, commit_id + 1):
            self._is_held(node, view, stream, seq_id, fact)

    def _holds(self, node: Node, view: View, connection: int, message: m.Committed) -> None:
        """Checks the ids above the commit id that the receiver of a link reports as held."""
        stream = _stream(node, connection, message.stream)
        if stream is None or not message.held:
            return
        stored = ids_of(unpack(view.rows[stream.key])[2])
        fact = f"{message.held} leaves {node.name} on {stream.key.hex()}, {stored} are stored"
        require(ids_of(message.held) <= stored, "acked_is_durable", fact)
        self.happened["gaps reported"] += 1
        for seq_id in ids_of(message.held):
            self._is_held(node, view, stream, seq_id, fact)

    def _is_held(
        self, node: Node, view: View, stream: Producer | LinkInbox, seq_id: int, fact: str
    ) -> None:
        if isinstance(stream, LinkInbox):
            if (stream.stream_id, seq_id) not in self.sent:
                hidden = self.ledger.may_hide_ids(stream.peer)
                require(hidden, "committed_is_held", f"id {seq_id} never existed: {fact}")
                return
            target, trailer, source, sent = self.sent[stream.stream_id, seq_id]
            held = (target, trailer) in view.ever or self.ledger.forgets((node.name, target))
            held = held or (DEAD_LETTERS, trailer) in view.ever
            held = held or (stream.stream_id, seq_id) in self.gone
            held = held or bool(self._is_over(source, sent)) or self.ledger.has_lapsed(sent.put)
        else:
            put = self.ledger.by_stream[stream.producer_id, seq_id]
            held = self.ledger.entered(put) or seq_id in stream.refused
            held = held or put.answer not in ("", "acked")
        require(held, "committed_is_held", f"id {seq_id}: {fact}")

    def _deliver(
        self, node: Node, view: View, connection: int, deliver: m.Deliver, gone: set[int]
    ) -> None:
        queue = node.turns.broker.catalogue.by_id.get(deliver.queue_id)
        if not is_watched(view.queues[deliver.queue_id][0]):
            return
        self._allows(view, deliver.queue_id, "get_inhibit", f"a delivery of {node.name}")
        who = (node.name, connection, deliver.request_id)
        selects, whole = who in self.ledger.selecting, who in self.ledger.whole
        self.happened["selected"] += selects and len(deliver.items)
        holder = self.ledger.ordered.get(who, ())
        holder = (view.life, *holder) if holder else ()
        for item in deliver.items:
            _, arrival, lease, delivered, failed, state, _ = m.DELIVERY.unpack_from(item)
            handle = (deliver.queue_id, arrival)
            held = view.held.get(handle)
            fact = f"{handle} by {node.name}, state {state}"
            require(held is not None, "delivered_is_on_the_queue", fact)
            assert held is not None
            self._may_be_had(node, view, handle, held, failed, fact)
            self.happened["deliveries"] += 1
            before = view.handed.get(handle)
            if held.is_member:
                groups.goes_on(view, handle, held, fact)
            if whole and held.is_member:
                groups.is_complete(self.ledger, node, view, handle, held, fact)
                self.happened["whole"] += 1
            if holder and held.is_member:
                groups.judge(self.ledger, node, view, handle, held, holder, state, self.happened)
            if before is None:
                if not (selects or whole or holder):
                    order.judge(
                        self.ledger,
                        view,
                        node.name,
                        handle,
                        node.now().ms,
                        node.outcomes - 1,
                        self.unordered,
                        self.in_order,
                    )
                self._first_time(view, held, delivered, state, fact)
            else:
                self._again(node, view, handle, before, state, fact, gone)
            order.leave(view, handle, held)
            known = queue and queue.leases.get(arrival)
            deadline_ms = known.deadline_ms if known else 0
            if known and not known.lessee.is_started:
                self.ledger.unread.add((node.name, *handle, lease))
            member = held.put.member if held.is_member else None
            handed = Handed(lease, connection, deadline_ms, view.life, holder=holder, member=member)
            view.handed[handle] = handed
            if held.is_member:
                groups.hand_out(view, handle, held, handed)

    def _may_be_had(
        self, node: Node, view: View, handle: Handle, held: Held, failed: int, fact: str
    ) -> None:
        """Checks whether a message may be delivered at all, regardless of the order."""
        now_ms, put = node.now().ms, held.put
        sound = (node.name, put.serial) not in self.ledger.rotten
        require(sound, "damaged_is_not_delivered", fact)
        require(not view.is_lost(held), "volatile_is_gone_after_a_restart", fact)
        fact = f"{fact}, ready {held.ready_ms}, expires {held.expires_ms}, now {now_ms}"
        require(not view.is_expired(held, now_ms), "nothing_after_its_time", fact)
        early = held.is_delayed or now_ms < held.ready_ms
        require(not early, "nothing_before_its_time", fact)
        if self.clocks_are_true and not put.wandered:
            due_ms = put.made_ms + put.traits.delay_ms
            fact = f"{fact}, made {put.made_ms}"
            require(self.world_ms >= due_ms, "nothing_before_its_time", fact)
        told = len(self.ledger.failures.get((node.name, *handle), ()))
        require(failed == held.failed >= told, "failures_are_counted", f"{fact}: {failed}, {told}")
        threshold = view.attribute(handle[0], "backout_threshold", 0)
        respected = not threshold or held.failed < threshold or held.is_stuck
        if put.member is not None:  # The message waits with its group until an operator acts.
            respected = respected or view.group_of(handle[0], put).is_parked
        require(respected, "threshold_is_respected", f"{fact}: failed {failed} times")

    def _first_time(self, view: View, held: Held, delivered: int, state: int, fact: str) -> None:
        never = not delivered and not state & m.STATE_REDELIVERED
        require(never, "redelivered_was_delivered", fact)
        if state & m.STATE_MAYBE_REDELIVERED:
            require(view.crashes > held.crashes, "maybe_has_a_crash", fact)

    def _again(
        self,
        node: Node,
        view: View,
        handle: Handle,
        before: Handed,
        state: int,
        fact: str,
        gone: set[int],
    ) -> None:
        self.happened["redeliveries"] += 1
        over = before.connection in gone or fate.is_over(self.ledger, node, view, handle, before)
        require(over, "delivered_again_has_a_cause", f"{fact}, lease {before.lease} is open")
        flags = m.STATE_REDELIVERED | m.STATE_MAYBE_REDELIVERED
        if before.life == view.life:
            flags = m.STATE_REDELIVERED
        unseen = (node.name, *handle, before.lease) in self.ledger.unread
        require(state & flags or unseen, "delivered_again_is_flagged", fact)

    def protocol_broken(self, node: Node, peer: Peer, error: RemoteProtocolError) -> None:
        """Reports a broken protocol, unless a hostile client broke it."""
        fact = f"{peer.peer_name} to {node.name}: {error}"
        is_hostile = (node.name, peer.number) in self.ledger.hostile
        require(is_hostile, "peers_keep_the_protocol", fact)


def _stream(node: Node, connection: int, number: int) -> Producer | LinkInbox | None:
    """Returns the stream that is open under *number* on *connection*."""
    session = node.turns.broker.sessions.get(connection)
    found = session.streams.get(number) if session is not None else None
    return found.stream if isinstance(found, InboundPath) else found
