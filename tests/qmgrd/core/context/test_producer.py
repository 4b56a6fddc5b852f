"""Tests of the window of a sequenced producer (D1b), without a queue manager."""

import pytest

from qmgr_config.model import Config
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import CreditExceeded, ErrorCode, RequestError, WindowExceeded
from qmgr_protocol.window import Inbox
from qmgrd.core.context import producer
from qmgrd.core.context.context import Context
from qmgrd.core.context.producer import Producer
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Now
from tests.memory_store import MemoryStore

ID = b"P" * 16


def make(commit_id: int = 0, ahead: tuple[int, ...] = (), **refused: int) -> Producer:
    codes = {int(seq_id[1:]): code for seq_id, code in refused.items()}
    return Producer(ID, Inbox(10, commit_id, set(ahead)), refused=codes)


def test_row_is_read_as_it_was_written() -> None:
    tx = MemoryStore()
    sender = make(5, (8, 7), _4=303, _8=404)
    sender.used_ms, sender.seen = 77, 3
    rows.put(tx, sender.key, sender.encode())
    assert producer.load(tx, ID, 10) == sender
    assert producer.load(tx, b"Q" * 16, 10) is None


def test_row_of_a_newer_version_is_read_as_far_as_known() -> None:
    tx = MemoryStore()
    sender = make(5)
    sender.user = "bob"
    row = sender.encode()
    # an array with an additional element
    rows.put(tx, make().key, bytes([row[0] + 1]) + row[1:] + b"\x07")
    loaded = producer.load(tx, ID, 10)
    assert loaded == sender


@pytest.mark.parametrize("user", ["", "bob"])
def test_user_is_stored_only_if_there_is_one(user: str) -> None:
    tx = MemoryStore()
    sender = make(5)
    sender.user = user
    row = sender.encode()
    assert len(unpack(row)) == (8 if user else 7)
    rows.put(tx, sender.key, row)
    assert producer.load(tx, ID, 10) == sender


def test_seen_removes_refusals_and_never_moves_back() -> None:
    sender = make(9, _2=303, _5=303, _9=303)
    sender.note_seen(5)
    assert sender.refused == {9: 303}
    sender.note_seen(3)
    assert sender.seen == 5


def test_seen_beyond_the_commit_id_is_ignored() -> None:
    """A client cannot have seen an answer that was never sent, so the later refusals are kept."""
    sender = make(3, (6,), _2=303, _6=303)
    sender.note_seen(100)
    assert sender.seen == 3
    assert sender.refused == {6: 303}


def test_ids_past_the_window_are_a_protocol_error() -> None:
    sender = make(5)
    sender.check(6, 10)
    with pytest.raises(WindowExceeded):
        sender.check(6, 11)


def test_answers_not_marked_as_seen_are_limited() -> None:
    sender = make(20)
    sender.seen = 5
    sender.check(21, 5)
    with pytest.raises(CreditExceeded):
        sender.check(21, 6)


def test_repeated_answers_have_the_first_code() -> None:
    sender = make(9, _2=303, _5=403, _9=303)
    text = "refused when it was first received: DUPLICATE_MESSAGE"
    assert sender.answers(3, 8) == [[5, 403, text]]
    assert make(9).answers(1, 9) == []


def context(**sections: object) -> Context:
    made = Context(Config.model_validate(sections), "QM1", b"S" * 16, 1)
    made.tx, made.now = MemoryStore(), Now(123, 0)
    return made


def test_new_producer_starts_empty() -> None:
    found = producer.open_producer(context(), ID, resume=False, count=0)
    assert (found.inbox.commit_id, found.used_ms) == (0, 123)


def test_resuming_an_unknown_producer_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        producer.open_producer(context(), ID, resume=True, count=0)
    assert caught.value.code == ErrorCode.PRODUCER_UNKNOWN


def test_producers_are_limited() -> None:
    here = context(producer={"producers_max": 2})
    producer.open_producer(here, ID, resume=False, count=1)
    with pytest.raises(RequestError, match="the store has 2 producers, the limit is 2") as caught:
        producer.open_producer(here, ID, resume=False, count=2)
    assert caught.value.code == ErrorCode.PRODUCERS_EXHAUSTED
