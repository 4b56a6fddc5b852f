"""Tests that an answer has the codes of all refusals, and as many texts as fit into a frame."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid
from qmgrd.core.sessions.refusal_rows import TEXTS_MAX, shortened
from tests.qmgrd.core.harness import Client, record

MOST = 20_000  # position in an array
LEAST_FRAME_BYTES = 1024 * 1024 + 64 * 1024  # smallest frame limit that a client may have
LONG = Uid("O" * 64, 2**63 - 5)


def test_first_few_are_logged_in_full() -> None:
    rows = [[number, 403, "on it already"] for number in range(TEXTS_MAX)]
    assert shortened(rows) == rows


def test_of_more_the_first_ones_have_a_text() -> None:
    rows = [[number, 403, "on it already"] for number in range(TEXTS_MAX + 2)]
    assert shortened(rows) == [*rows[:TEXTS_MAX], [TEXTS_MAX, 403, ""], [TEXTS_MAX + 1, 403, ""]]


def codes(rows: list[list[Any]]) -> set[tuple[int, bool]]:
    return {(code, bool(text)) for _, code, text in rows}


def test_answer_to_a_put_of_a_unit_fits_into_a_frame(app: Client) -> None:
    app.put_records("Q", record(b"", uid=LONG))
    app.ask(m.UnitBegin, 1)
    request = m.UnitPut(app.next_id(), 1, "Q", [record(b"", uid=LONG)] * MOST)
    (answer,) = app.say(request)
    assert isinstance(answer, m.Ok)
    refused, stamped = answer.value
    assert [row[0] for row in refused] == list(range(MOST))
    assert codes(refused[:TEXTS_MAX]) == {(ErrorCode.DUPLICATE_MESSAGE, True)}
    assert codes(refused[TEXTS_MAX:]) == {(ErrorCode.DUPLICATE_MESSAGE, False)}
    assert stamped == []
    assert len(app.peer.encode(answer)) < LEAST_FRAME_BYTES


def test_answer_to_puts_fits_into_a_frame(app: Client) -> None:
    app.put_records("Q", record(b"", uid=LONG))
    count, producer = 4_000, app.producer(b"P" * 16)
    (answer,) = app.say(m.Put(producer.stream, 1, 0, "Q", [record(b"", uid=LONG)] * count))
    assert isinstance(answer, m.Committed)
    assert [row[0] for row in answer.refused] == list(range(1, count + 1))
    assert codes(answer.refused[TEXTS_MAX:]) == {(ErrorCode.DUPLICATE_MESSAGE, False)}
    assert len(app.peer.encode(answer)) < LEAST_FRAME_BYTES // 4
