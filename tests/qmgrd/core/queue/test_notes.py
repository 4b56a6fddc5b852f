"""Tests that notes are limited, survive restarts, and are readable even if they were damaged."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import AnyStore, Client
from tests.qmgrd.core.unit_of_work import note_of, settle

WIDE = "\N{FACE WITH TEARS OF JOY}"  # This text has four bytes.


def note_of_failures(count: int, **fields: str) -> notes.Note:
    note: notes.Note = {}
    for number in range(count):
        note = notes.with_attempt(note, number, 7, **fields)
    return note


@pytest.mark.parametrize("count", [1, 9, 10, 11, 30])
def test_first_and_last_attempts_are_kept(count: int) -> None:
    found = [attempt[0] for attempt in note_of_failures(count)["attempts"]]
    assert found == [0, *range(1, count)][-10:] if count <= 10 else [0, *range(count - 9, count)]
    assert len(found) == min(count, notes.ATTEMPTS_MAX)


def test_valid_note_is_stored_unchanged() -> None:
    note = note_of_failures(10, reason="r", text="t", client="c") | {"unknown": [1]}
    assert unpack(notes.encode(note)) == note


def test_note_never_exceeds_the_limit_of_a_link() -> None:
    """A note contains the first attempt, and as many of the last attempts as fit."""
    note = note_of_failures(10, reason=WIDE * 64, text=WIDE * 1_000, client=WIDE * 255)
    note |= {"code": 1, "reason": WIDE * 64, "text": WIDE * 1_000, "queue": "Q"}
    data = notes.encode(note)
    assert len(data) <= notes.NOTE_MAX_BYTES < len(pack(note))
    assert notes.of_peer(data) == unpack(data)
    kept = [attempt[0] for attempt in unpack(data)["attempts"]]
    assert kept[0] == 0
    assert kept[1:] == list(range(10))[-len(kept) + 1 :]
    assert len(kept) >= 4


@pytest.mark.parametrize(
    "foreign",
    [
        {"attempts": ["a" * 31_000]},
        {"attempts": "a" * 31_000},
        {"text": "t" * 31_000},
        {"unknown": bytes(31_000)},
        {str(number): "x" * 300 for number in range(100)},
    ],
    ids=["attempt", "no attempts", "text", "unknown", "many"],
)
def test_note_of_a_peer_that_is_too_long_loses_unknown_fields(foreign: dict[str, Any]) -> None:
    assert notes.of_peer(pack(foreign))
    note = notes.with_attempt(foreign, 1, 7, "r", WIDE * 1_000, "c") | {"code": 5, "queue": "Q"}
    data = notes.encode(note)
    assert len(data) <= notes.NOTE_MAX_BYTES
    kept = unpack(data)
    assert (kept["code"], kept["queue"]) == (5, "Q")
    assert kept["attempts"][-1][2] == "r"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        pack([1]),
        pack({"x": "a" * notes.NOTE_MAX_BYTES}),
        pack({"x": [{}] * 64}),
        pack({"x": [[]] * 64}),
        pack({str(number): number for number in range(256)}),
    ],
    ids=["none", "rotten", "no map", "too long", "many maps", "many lists", "many keys"],
)
def test_invalid_note_is_ignored(data: bytes) -> None:
    assert notes.of_peer(data) == {}


def test_facts_without_a_note_are_unknown() -> None:
    facts = notes.facts_of({})
    assert facts.pop("dead_retries") == 0
    assert set(facts.values()) == {None}


def test_number_of_retries_can_always_be_increased() -> None:
    assert notes.retries({"retries": 2**64 - 1}) == notes.RETRIES_MAX


def test_facts_of_a_dead_letter() -> None:
    note = {"code": int(ErrorCode.MESSAGE_REJECTED), "reason": "r", "queue": "Q", "retries": 2}
    facts = notes.facts_of(note)
    assert facts["dead_code"] == "MESSAGE_REJECTED"
    assert (facts["dead_reason"], facts["dead_queue"], facts["dead_retries"]) == ("r", "Q", 2)


def test_note_follows_a_message_over_a_link(store: AnyStore, app: Client) -> None:
    far = Far(app.manager)
    far.open()
    data = notes.encode(note_of_failures(2, reason="there"))
    far.client.say(m.Put(far.stream, 1, 0, "Q", [message(1)], [[0, {"note": data}]]))
    app.manager.crash()
    app = app.manager.connect()
    settle(app, m.RELEASE, *app.get("Q"), reason="here", delay_ms=1_000)
    app.manager.crash(1_000)
    app = app.manager.connect()
    app.manager.turn()
    settle(app, m.REJECT, *app.get("Q"), reason="dead")
    (dead,) = app.browse("SYSTEM.DEAD.LETTERS")
    reasons = [attempt[2] for attempt in note_of(dead)["attempts"]]
    assert reasons == ["there", "there", "here", "dead"]
    assert len(app.manager.scan(keys.SPACE_NOTE)) == 1


def test_damaged_note_is_ignored_and_can_be_replaced(app: Client) -> None:
    app.put("Q", b"x")
    settle(app, m.RELEASE, *app.get("Q"), reason="lost")
    ((key, row),) = app.manager.scan(keys.SPACE_NOTE)
    app.manager.store.begin().put(key, row[:-1] + bytes([row[-1] ^ 1]))
    app.manager.store.commit()
    (found,) = app.get("Q")
    assert note_of(found) == {}
    settle(app, m.RELEASE, found, reason="new")
    (found,) = app.browse("Q")
    assert [attempt[2] for attempt in note_of(found)["attempts"]] == ["new"]


def test_note_is_removed_with_its_message(app: Client) -> None:
    app.put("Q", b"acked", b"purged")
    app.release(*app.get("Q", 2))
    assert len(app.manager.scan(keys.SPACE_NOTE)) == 2
    app.ack(*app.get("Q"))
    app.ask(m.QueuePurge, "Q")
    assert app.manager.scan(keys.SPACE_NOTE) == []
