"""Whether a peer's window belongs to what is held here (B21, B22)."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core import link_continuation
from qmgrd.core.link_outbox import LinkOutbox
from tests.qmgrd.core.harness import Client


@pytest.fixture
def outbox(app: Client) -> Iterator[LinkOutbox]:
    """Five messages, of which two are committed, in an open turn."""
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
    outbox: LinkOutbox, commit_id: int, held_to: int = 0, uid: bytes | None = None
) -> ErrorCode | None:
    try:
        link_continuation.check("NYC", outbox, 2, commit_id, max(held_to, commit_id), uid)
    except RequestError as error:
        return ErrorCode(error.code)
    return None


def test_peer_that_is_where_it_was_or_further_goes_on(outbox: LinkOutbox) -> None:
    assert check(outbox, 2, uid=outbox.uid_at(2)) is None
    assert check(outbox, 4, uid=outbox.uid_at(4)) is None
    assert check(outbox, 3, 5, outbox.uid_at(5)) is None


def test_peer_that_has_what_was_never_given_tells_a_restored_store_B21(
    outbox: LinkOutbox,
) -> None:
    assert check(outbox, 6) is ErrorCode.RESTORED
    assert check(outbox, 2, 9) is ErrorCode.RESTORED


def test_peer_that_has_another_message_under_an_id_tells_it_too_B21(outbox: LinkOutbox) -> None:
    assert check(outbox, 3, uid=b"another") is ErrorCode.RESTORED
    assert check(outbox, 2, uid=b"another") is ErrorCode.RESTORED
    assert check(outbox, 4, uid=None) is ErrorCode.RESTORED


def test_peer_that_has_less_than_it_had_committed_was_restored_B22(outbox: LinkOutbox) -> None:
    assert check(outbox, 1) is ErrorCode.PEER_RESTORED
