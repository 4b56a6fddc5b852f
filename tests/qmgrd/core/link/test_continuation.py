"""Tests whether a peer's window belongs to the outbox (B21, B22)."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import row as rows
from qmgrd.core.link import continuation as link_continuation
from qmgrd.core.link.outbox import LIVES_MAX, LinkOutbox
from tests.qmgrd.core.harness import Client, Manager


@pytest.fixture
def outbox(app: Client) -> Iterator[LinkOutbox]:
    """Yields an outbox of five messages, of which two are committed, in an open turn."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", *[b"x"] * 5)
    found = app.manager.turns.broker.catalogue.links["NYC"].outbox
    app.manager.turns.broker.context.tx = app.manager.store.begin()
    found.sent_id = 5
    found.commit(2)
    yield found
    found.queue.flush(app.manager.turns.broker.context.tx)
    app.manager.store.commit()


def check(
    outbox: LinkOutbox,
    commit_id: int,
    held_to: int = 0,
    uid: bytes | None = None,
    life: bytes = b"",
) -> ErrorCode | None:
    try:
        link_continuation.check("NYC", outbox, 2, commit_id, max(held_to, commit_id), uid, life)
    except RequestError as error:
        return ErrorCode(error.code)
    return None


def test_peer_that_is_where_it_was_or_further_goes_on(outbox: LinkOutbox) -> None:
    assert check(outbox, 2, uid=outbox.uid_at(2)) is None
    assert check(outbox, 4, uid=outbox.uid_at(4)) is None
    assert check(outbox, 3, 5, outbox.uid_at(5)) is None


def test_peer_that_has_what_was_never_given_tells_a_restored_store_B21(outbox: LinkOutbox) -> None:
    assert check(outbox, 6) is ErrorCode.RESTORED
    assert check(outbox, 2, 9) is ErrorCode.RESTORED


def test_peer_with_another_message_under_an_id_shows_a_restored_store_B21(
    outbox: LinkOutbox,
) -> None:
    assert check(outbox, 3, uid=b"another") is ErrorCode.RESTORED
    assert check(outbox, 2, uid=b"another") is ErrorCode.RESTORED
    assert check(outbox, 4, uid=None) is ErrorCode.RESTORED


def test_peer_that_has_less_than_it_had_committed_was_restored_B22(outbox: LinkOutbox) -> None:
    assert check(outbox, 1) is ErrorCode.PEER_RESTORED


def test_message_of_an_unknown_life_shows_a_restored_store_B21(outbox: LinkOutbox) -> None:
    """The UID proves nothing if the message with that id was deleted, or has the same UID."""
    outbox.sending()
    own = outbox._context.life
    assert check(outbox, 2, 4, outbox.uid_at(4), own) is None
    assert check(outbox, 2, 4, outbox.uid_at(4), b"later".ljust(16)) is ErrorCode.RESTORED
    assert check(outbox, 2, 2, outbox.uid_at(2), b"pruned".ljust(16)) is None


def test_id_assigned_after_the_end_of_a_life_shows_a_restored_store_B21(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", *[b"x"] * 3)
    manager = app.manager
    before = _outbox(manager)
    first = manager.turns.broker.context.life
    manager.turns.broker.context.tx = manager.store.begin()
    before.sending()
    manager.turns.broker.context.tx.put(*_row(before))
    manager.store.commit()
    assert before.end_of(first) == 4
    for lives in (1, 2):
        manager.crash()
        manager.connect().put("F@NYC", *[b"y"] * 2)
        after = _outbox(manager)
        assert after.queue.counters.next_arrival == 4 + 2 * lives
        assert after.end_of(first) == 4, "the end of the life, not of later messages"
        assert _life_check(after, 3, first) is None
        assert _life_check(after, 4, first) is ErrorCode.RESTORED
    tx = manager.turns.broker.context.tx = manager.store.begin()
    after.sent_id = 5
    after.commit(2)
    assert after.end_of(first) == 4
    after.commit(3)
    assert after.end_of(first) is None, "only committed messages were sent in that life"
    after.queue.flush(tx)
    manager.store.commit()


def test_oldest_of_many_lives_are_forgotten(outbox: LinkOutbox) -> None:
    """Otherwise, a blocked link would be refused after some restarts of its daemon."""
    context = outbox._context
    lives = [b"%016d" % number for number in range(LIVES_MAX + 3)]
    for life in lives:
        outbox._lives = {known: end or 6 for known, end in outbox._lives.items()}
        context.life = life
        outbox.sending()
        outbox.sending()
    assert len(outbox._lives) == LIVES_MAX + 1
    assert check(outbox, 2, 5, outbox.uid_at(5), lives[0]) is None
    assert check(outbox, 2, 5, outbox.uid_at(5), lives[-2]) is None
    outbox.commit(5)
    assert [*outbox._lives] == [lives[-1]]


def test_old_row_without_lives_is_accepted(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", *[b"x"] * 3)
    manager = app.manager
    key, _ = _row(_outbox(manager))
    rows.put(manager.store.begin(), key, pack([0, None]))
    manager.store.commit()
    manager.crash()
    assert _life_check(_outbox(manager), 3, b"before".ljust(16)) is None
    manager.connect().put("F@NYC", b"y")
    assert _life_check(_outbox(manager), 4, b"before".ljust(16)) is ErrorCode.RESTORED


def test_sum_of_losses_can_always_be_stored(app: Client, outbox: LinkOutbox) -> None:
    context, row = app.manager.turns.broker.context, {"lost": 2**63 - 2}
    for _ in range(3):
        link_continuation.report_restored(context, "NYC", row, 2**63 - 1)
    assert row["lost"] == 2**63 - 1


def _outbox(manager: Manager) -> LinkOutbox:
    return manager.turns.broker.catalogue.links["NYC"].outbox


def _row(outbox: LinkOutbox) -> tuple[bytes, bytes]:
    return outbox._row_key, outbox._context.tx.get(outbox._row_key) or b""


def _life_check(outbox: LinkOutbox, held_to: int, life: bytes) -> ErrorCode | None:
    try:
        link_continuation.check("NYC", outbox, 0, 0, held_to, outbox.uid_at(held_to), life)
    except RequestError as error:
        return ErrorCode(error.code)
    return None
