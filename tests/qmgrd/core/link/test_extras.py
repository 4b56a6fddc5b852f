"""Tests that a peer can add to its records only what is limited."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgrd.core.link import extras
from qmgrd.core.link.puts import size_of
from qmgrd.core.queue.notes import NOTE_MAX_BYTES
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import Client
from tests.qmgrd.core.unit_of_work import note_of

NOTE = {"code": 410, "queue": "Q"}
EXTRA = {m.EXTRA_EXPIRY_MS: 7, m.EXTRA_DELAY_MS: 8, m.EXTRA_NOTE: pack(NOTE)}


def known(*rows: list[Any], records: int = 2) -> extras.Extras:
    return extras.known(m.Put(1, 1, 0, "Q", [b"x"] * records, list(rows)))


def test_known_fields_stay() -> None:
    assert known([1, EXTRA]) == [[1, EXTRA]]


@pytest.mark.parametrize(
    "field",
    [
        {m.EXTRA_EXPIRY_MS: b"7"},
        {m.EXTRA_DELAY_MS: bytes(65_536)},
        {m.EXTRA_NOTE: 7},
        {m.EXTRA_NOTE: bytes(NOTE_MAX_BYTES + 1)},
        {"of a later version": bytes(60_000)},
    ],
)
def test_wrong_and_unknown_fields_are_dropped(field: dict[str, Any]) -> None:
    assert known([0, field], [1, EXTRA | field]) == [[1, _without(field)]]


def _without(field: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in EXTRA.items() if key not in field}


def test_record_has_one_row_and_a_row_has_a_record() -> None:
    assert known([0, {m.EXTRA_EXPIRY_MS: 1}], [2, EXTRA], [0, EXTRA], [7, EXTRA]) == [[0, EXTRA]]
    assert known([0, EXTRA], records=0) == []


def test_note_is_decoded_and_encoded_again() -> None:
    assert extras.decoded([[0, EXTRA]]) == [[0, EXTRA | {m.EXTRA_NOTE: NOTE}]]
    assert extras.encoded(extras.decoded([[0, EXTRA]])) == [[0, EXTRA]]


@pytest.mark.parametrize("note", [b"", b"\xc1", pack({"a": [{}] * 19_000})])
def test_invalid_note_is_empty(note: bytes) -> None:
    found = extras.encoded(extras.decoded([[0, {m.EXTRA_NOTE: note}]]))
    assert found == [[0, {m.EXTRA_NOTE: b""}]]
    assert extras.notes_of(found) == []


def test_extras_behind_a_gap_take_no_more_memory_than_is_counted(app: Client) -> None:
    far = Far(app.manager)
    far.open(ordered=True)
    heavy = {m.EXTRA_EXPIRY_MS: bytes(60_000), "of a later version": bytes(60_000)}
    note = {m.EXTRA_NOTE: b"n"}
    for put in (
        m.Put(far.stream, 5, 0, "Q", [message(5)], [[0, heavy], [0, note | heavy, b"later"]]),
        m.Put(far.stream, 6, 0, "Q", [message(6)], [[9, note]] * 1_000),
    ):
        far.client.say(put)
    (stream,) = app.manager.turns.broker.streams.links.open_streams.values()
    assert [put.extras for put in stream.in_line.values()] == [[[0, note]], []]
    assert stream.in_line_bytes == sum(size_of(put) + 64 for put in stream.in_line.values())


def test_heavy_note_of_a_peer_is_not_stored(app: Client) -> None:
    far = Far(app.manager)
    far.open()
    notes: list[dict[str, Any]] = [{"a": [{}] * 19_000}, {"a": [{}] * 9}]
    rows = [[index, {m.EXTRA_NOTE: pack(note)}] for index, note in enumerate(notes)]
    far.client.say(m.Put(far.stream, 1, 0, "Q", [message(1), message(2)], rows))
    assert [note_of(found) for found in app.browse("Q")] == [{}, notes[1]]
