"""Tests that planted bugs in queue managers are found. Similar bugs are then found as well.

Each test replaces one piece by a typical programming mistake. One of the first seeds must then
break the invariant for that piece.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.window import Inbox
from qmgrd.core.catalogue import attributes
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Outcome
from qmgrd.core.context.producer import Producer
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.link.inbox import InboundPath, LinkInbox
from qmgrd.core.link.link import Link
from qmgrd.core.link.path import Path
from qmgrd.core.link.pump import LinkPump
from qmgrd.core.queue import settle
from qmgrd.core.queue.dedup import OriginTable
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.take import take
from qmgrd.core.sessions import pump, streams
from qmgrd.core.sessions.link_streams import LinkStreams
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.settlements import Settlements
from qmgrd.core.turn import Turns
from tests.sim.broken import Patch, assert_caught


class ReplyBeforeDurable(Turns):
    """Sends the outcome of a turn immediately, but makes the turn durable with the next turn."""

    def run(self, now: Now) -> Outcome:
        self._store.commit()
        return self._apply(now)

    def stop(self, now: Now) -> list[Outcome]:
        outcomes = super().stop(now)
        self._store.commit()
        return outcomes


def test_reply_before_durable() -> None:
    assert_caught({"acked_is_durable", "committed_is_held"}, ReplyBeforeDurable)


def test_hello_of_a_link_without_commit_id(monkeypatch: Patch) -> None:
    def opened(self: LinkInbox, stream: int, window: int, lost: int) -> list[object]:
        return [stream, 0, [], None, window, self.incarnation, lost, b""]

    monkeypatch.setattr(LinkInbox, "opened", opened)
    assert_caught({"commit_id_grows", "no_link_is_refused"})


def test_run_above_a_gap_is_reported_too_long(monkeypatch: Patch) -> None:
    tell = InboundPath.commit_message

    def longer(self: InboundPath) -> m.Committed:
        told = tell(self)
        return told._replace(held=[[first, count + 1] for first, count in told.held])

    monkeypatch.setattr(InboundPath, "commit_message", longer)
    assert_caught({"acked_is_durable"}, first=25)


def test_window_row_is_stored_in_another_turn_than_its_messages(monkeypatch: Patch) -> None:
    end_turn = LinkStreams.end_turn
    waiting: dict[int, dict[bytes, Any]] = {}

    def later(self: LinkStreams) -> None:
        before = waiting.get(id(self), {})
        waiting[id(self)], self._dirty = self._dirty, before
        end_turn(self)

    monkeypatch.setattr(LinkStreams, "end_turn", later)
    assert_caught({"acked_is_durable"})


def test_resent_put_is_stored_twice(monkeypatch: Patch) -> None:
    def missing(self: Inbox, first_id: int, count: int) -> range:
        return range(first_id, first_id + count)

    monkeypatch.setattr(Inbox, "missing", missing)
    assert_caught({"nothing_is_doubled"})


def test_refusal_is_forgotten_when_the_put_is_sent_again(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Producer, "answers", lambda self, first_id, last_id: [])
    assert_caught({"acked_is_durable", "answer_stays_the_same", "acknowledged_is_never_lost"})


def test_refused_id_is_missing_from_the_window(monkeypatch: Patch) -> None:
    """A resent put is then judged again, and may be stored although it was refused."""
    put = streams.Streams._put_of_producer

    def forgetful(
        self: streams.Streams, session: Session, sender: Producer, message: Any, why: Any
    ) -> None:
        put(self, session, sender, message, why)
        sender.refused.clear()

    monkeypatch.setattr(streams.Streams, "_put_of_producer", forgetful)
    assert_caught({"committed_is_held", "acked_is_durable", "answer_stays_the_same"})


def test_commit_id_jumps_a_gap(monkeypatch: Patch) -> None:
    def receive(self: Inbox, seq_id: int) -> bool:
        self.commit_id = max(self.commit_id, seq_id)
        return True

    monkeypatch.setattr(Inbox, "receive", receive)
    assert_caught({"committed_is_held"}, first=23)


def test_source_deletes_a_message_once_it_is_sent(monkeypatch: Patch) -> None:
    run = LinkPump.run

    def eager(self: LinkPump) -> None:
        run(self)
        self._link.outbox.commit(self._link.outbox.sent_id)

    monkeypatch.setattr(LinkPump, "run", eager)
    assert_caught({"deleted_is_held_by_the_receiver"})


def test_table_of_origins_is_not_stored(monkeypatch: Patch) -> None:
    def flush(self: OriginTable, tx: Transaction) -> None:
        self._raised.clear()

    monkeypatch.setattr(OriginTable, "flush", flush)
    assert_caught({"origin_table_covers", "one_message_of_a_uid_on_a_queue"})


def test_table_of_origins_is_lowered(monkeypatch: Patch) -> None:
    def lower(self: OriginTable, tx: Transaction, origin: bytes, timestamp: int) -> None:
        self._highest[origin] = timestamp
        self._raised[origin] = None

    monkeypatch.setattr(OriginTable, "raise_to", lower)
    assert_caught({"origin_table_covers", "one_message_of_a_uid_on_a_queue"})


def test_timestamps_follow_the_wall_clock_back(monkeypatch: Patch) -> None:
    def follow(self: Stamper, wall_us: int) -> None:
        self.last_us = max(wall_us // 1_000_000, 1)

    monkeypatch.setattr(Stamper, "catch_up", follow)
    assert_caught({"one_message_of_a_uid_on_a_queue", "clocks_never_go_back"})


def as_holder(queue: Queue, handles: bytes) -> bytes:
    """Returns *handles* with the lease numbers of those who hold the leases."""
    numbers = {arrival: lease.number for arrival, lease in queue.leases.items()}
    return b"".join(
        m.HANDLE.pack(priority, arrival, numbers.get(arrival, number))
        for priority, arrival, number in m.HANDLE.iter_unpack(handles)
    )


@pytest.mark.long
def test_ack_of_a_foreign_lease_is_accepted(monkeypatch: Patch) -> None:
    ack = settle.ack_all
    monkeypatch.setattr(
        settle,
        "ack_all",
        lambda queue, tx, now, handles, numbers: ack(
            queue, tx, now, as_holder(queue, handles), numbers
        ),
    )
    assert_caught({"settled_by_its_holder"})


def test_ack_is_answered_but_has_no_effect(monkeypatch: Patch) -> None:
    monkeypatch.setattr(settle, "ack_all", lambda queue, tx, now, handles, numbers: [])
    assert_caught({"settled_is_durable"})


@pytest.mark.long
def test_release_of_a_foreign_lease_is_accepted(monkeypatch: Patch) -> None:
    one_by_one = Settlements._one_by_one

    def as_anybody(self: Settlements, session: Any, queue: Queue, message: m.Settle) -> Any:
        handles = as_holder(queue, message.handles)
        return one_by_one(self, session, queue, message._replace(handles=handles))

    monkeypatch.setattr(Settlements, "_one_by_one", as_anybody)
    assert_caught({"delivered_again_has_a_cause"}, first=25)


def test_returning_message_does_not_lower_the_position(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Queue, "lower_position", lambda self, priority, arrival, *lane: None)
    assert_caught({"ready_is_found"})


def test_leased_message_is_delivered_again(monkeypatch: Patch) -> None:
    def greedy(self: Queue, tx: Transaction, now: Now, consumer: Consumer, count: int) -> Any:
        self.positions.ready[:] = [0] * len(self.positions.ready)
        leases, self.leases = self.leases, {}
        items = take(self, tx, now, consumer, count)
        self.leases = leases | self.leases
        return items

    monkeypatch.setattr(pump, "take", greedy)
    assert_caught({"delivered_again_has_a_cause"})


def test_crash_is_not_reported_to_consumers(monkeypatch: Patch) -> None:
    add = Catalogue.add_queue
    monkeypatch.setattr(
        Catalogue,
        "add_queue",
        lambda self, name, row, *, unclean: add(self, name, row, unclean=False),
    )
    assert_caught({"delivered_again_is_flagged"})


def test_return_of_a_message_is_not_counted(monkeypatch: Patch) -> None:
    come_back = settle.return_to_queue

    def unseen(*arguments: Any, **terms: Any) -> Any:
        return come_back(*arguments, **terms | {"delivered": False})

    monkeypatch.setattr(settle, "return_to_queue", unseen)
    assert_caught({"delivered_again_is_flagged"})


def test_credit_is_ignored(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Consumer, "wants", property(lambda self: self.open))

    def take_all(take: Callable[..., Any]) -> Callable[..., Any]:
        def greedy(self: Queue, tx: Transaction, now: Now, consumer: Consumer, count: int) -> Any:
            consumer.credit_messages = consumer.credit_bytes = 1 << 40
            return take(self, tx, now, consumer, count)

        return greedy

    monkeypatch.setattr(pump, "take", take_all(take))
    assert_caught({"credit_is_respected"})


def test_older_connection_is_not_fenced(monkeypatch: Patch) -> None:
    monkeypatch.setattr(streams.Streams, "_fence", lambda self, producer_id, session: None)
    assert_caught({"nothing_is_doubled", "commit_id_grows", "refused_is_not_stored"}, first=26)


@pytest.mark.long
def test_lost_link_is_not_dialled_again(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Path, "_try_in", lambda self, wait_ms, call: None)
    assert_caught({"drains_in_time"}, first=17)


@pytest.mark.long
def test_blocked_link_does_not_try_again(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Link, "_unblock", lambda self: None)
    assert_caught({"drains_in_time"}, first=82)


def test_inhibits_have_no_effect(monkeypatch: Patch) -> None:
    bounds = attributes.bounds

    def forgetful(config: Any, row: dict[str, Any]) -> Any:
        return replace(bounds(config, row), put_inhibit=False, get_inhibit=False)

    monkeypatch.setattr(attributes, "bounds", forgetful)
    assert_caught({"inhibited_is_held_back"}, first=7)


def test_turn_that_did_nothing_wants_another(monkeypatch: Patch) -> None:
    monkeypatch.setattr("qmgrd.core.broker.Broker.busy", property(lambda self: True))
    assert_caught({"nothing_spins"})
