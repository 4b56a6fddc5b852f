"""Compares the deliveries, the answers and the store of the manager with the model."""

from typing import TYPE_CHECKING, Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import ErrorCode
from qmgrd.verify.definitions import check_definitions
from qmgrd.verify.finding import Findings
from qmgrd.verify.queue import check_messages
from tests.qmgrd.core.harness import Delivery, Manager, delivery
from tests.qmgrd.core.topics_machine.things import NEVER_MS, Copy

if TYPE_CHECKING:
    from tests.qmgrd.core.topics_machine.table import Table

PUBLICATIONS = "SYSTEM.PUBLICATIONS"
GONE_MAX = 3  # the last publications without holders, whose answers are also compared


def compare_all(table: "Table") -> None:
    """Compares all answers and the store with the model."""
    _compare_subscriptions(table)
    _compare_copies(table)
    _compare_parked(table)
    _compare_lacks(table)
    _compare_held(table)
    check_store(table.manager)


def check_store(manager: Manager) -> None:
    """Verifies the store with the rules for a closed store."""
    found = Findings()
    tx = manager.store.begin()
    try:
        check_messages(found, tx, check_definitions(found, tx))
    finally:
        manager.store.abort()
    assert not found.kept, found.kept


def _compare_subscriptions(table: "Table") -> None:
    model = table.model
    value = table.ask(table.seats[0], m.SubscriptionList)
    shown = {row["subscription"]: row for row in value["subscriptions"]}
    assert shown.keys() == model.subscriptions.keys()
    for name, found in model.subscriptions.items():
        row = shown[name]
        there = found.those("ready", "leased")
        expected: dict[str, Any] = {
            "topic": found.filter,
            "durable": found.owner is None,
            "suspended": found.is_suspended,
            "depth": len(there),
            "delayed": len(found.those("delayed")),
            "parked": len(found.those("parked")),
            "leased": len(found.those("leased")),
            "consumers": int(found.consumer is not None),
            "puts": found.puts,
            "acked": found.acked,
            "purged": found.purged,
            "missed": found.missed,
            "expired": found.expired,
            "lost": found.lost,
            "oldest_us": min((x.publication.put_us for x in there), default=None),
        }
        other = {key: (row[key], x) for key, x in expected.items() if row[key] != x}
        assert not other, (name, other, found.copies)


def _compare_copies(table: "Table") -> None:
    """Browses each subscription and compares its copies with the model (C24)."""
    for found in table.model.subscriptions.values():
        for states, is_delayed in ((("ready", "leased"), False), (("delayed",), True)):
            copies = [x for x in found.those(*states) if not x.is_expired(table.model.now_ms)]
            value = table.ask(
                table.seats[0], m.Browse, found.name, messages_max=10_000, delayed=is_delayed
            )
            shown = [delivery(0, item) for item in value["items"]]
            there = [x.publication.body for x in copies]
            assert [x.body for x in shown] == there, (found.name, states)
            for one, copy in zip(shown, copies, strict=True):
                compare_delivery(one, copy, table.model.now_ms, is_browsed=True)


def _compare_parked(table: "Table") -> None:
    value = table.ask(table.seats[0], m.RepublishList)
    shown = [
        (
            row["uid"],
            row["topic"],
            row["subscription"],
            row["failed"],
            row["delivered"],
            (row["code"], row["reason"] or "", row["text"] or ""),
            row["republished"],
            row["awaits_return"],
            [tuple(x[1:]) for x in row["attempts"]],
            row["bytes"],
        )
        for row in value["parked"]
    ]
    expected = [
        (
            copy.publication.name,
            copy.publication.wish.topic,
            found.name,
            copy.failed,
            copy.delivered,
            (ErrorCode(copy.why[0]).name, *copy.why[1:]),
            copy.retries,
            copy.awaits,
            copy.attempts,
            len(copy.publication.body),
        )
        for found, copy in table.model.parked()
    ]
    assert shown == expected


def _compare_lacks(table: "Table") -> None:
    """Requests the subscribers that lack each held publication, and those of some others."""
    model = table.model
    held = model.held()
    known = {x.uid for x in held}
    gone = {x.uid: x for x in model.publications if x.uid not in known}
    for publication in held:
        value = table.ask(table.seats[0], m.TopicLacks, table.trailer(publication))
        rows = [
            {
                "subscription": x.name,
                "state": copy.state,
                "delivered": copy.delivered,
                "failed": copy.failed,
            }
            for x in sorted(model.subscriptions.values(), key=lambda x: x.name)
            if (copy := x.copy_of(publication)) is not None
        ]
        topic = publication.wish.topic
        assert value == {"uid": publication.name, "topic": topic, "subscriptions": rows}
    for publication in list(gone.values())[-GONE_MAX:]:
        code = table.ask(table.seats[0], m.TopicLacks, table.trailer(publication))
        assert code == ErrorCode.PUBLICATION_UNKNOWN, publication


def _compare_held(table: "Table") -> None:
    """C9: Each held publication is stored once, and no other publication is stored."""
    held = table.model.held()
    if PUBLICATIONS not in table.manager.turns.broker.catalogue.queues:
        assert not held
        return
    value = table.ask(table.seats[0], m.Browse, PUBLICATIONS, messages_max=10_000)
    shown = [records.decode(delivery(0, item).record) for item in value["items"]]
    bodies = {(x.uid.origin, x.uid.timestamp): x.body for x in shown if x.uid is not None}
    assert len(bodies) == len(value["items"]), "a publication is stored twice"
    alive = [x for x in held if x.expires_ms > table.model.now_ms]  # Expired copies are not shown.
    assert bodies == {x.uid: x.body for x in alive}
    row = table.ask(table.seats[0], m.QueueShow, PUBLICATIONS)
    assert row["depth"] + row["delayed"] == len(held)


def compare_delivery(found: Delivery, copy: Copy, now_ms: int, *, is_browsed: bool = False) -> None:
    """Compares a delivery or a browsed message with a copy."""
    publication, wish = copy.publication, copy.publication.wish
    assert found.priority == copy.priority
    assert (found.delivered, found.failed) == (copy.delivered, copy.failed), copy
    assert found.put_us == publication.put_us
    state = m.STATE_MAYBE_REDELIVERED if copy.maybe else 0
    if copy.delivered:
        state = m.STATE_REDELIVERED
    state |= m.STATE_TOPIC | (m.STATE_REPUBLISHED if copy.republished else 0)
    state |= m.STATE_EXPIRES if copy.expires_ms != NEVER_MS else 0
    state |= m.STATE_NOTED if copy.attempts or copy.retries else 0
    state |= m.STATE_LEASED if is_browsed and copy.state == "leased" else 0
    assert found.state == state, (found.state, state, copy)
    length = found.tail[0]
    assert found.tail[1 : 1 + length].decode() == wish.topic
    tail = found.tail[1 + length :]
    if copy.expires_ms != NEVER_MS:
        assert m.REMAINING.unpack_from(tail) == (copy.expires_ms - now_ms,)
        tail = tail[m.REMAINING.size :]
    _compare_note(unpack(tail) if tail else {}, copy)
    fields = records.decode(found.record)
    assert fields.uid is not None
    # The UID of a publication of this step is learned later.
    assert publication.uid in (("", 0), (fields.uid.origin, fields.uid.timestamp))
    assert fields.body == publication.body
    headers = {"colour": wish.colour} if wish.colour else {}
    assert fields.envelope.get(records.HEADERS, {}) == headers


def _compare_note(note: dict[str, Any], copy: Copy) -> None:
    attempts = [tuple(x[1:]) for x in note.get("attempts", [])]
    assert attempts == copy.attempts, (attempts, copy)
    assert note.get("retries", 0) == copy.retries
