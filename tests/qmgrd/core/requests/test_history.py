"""Tests of requests for history: their answers and errors."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout import keys
from qmgrd.core.requests.history import CURSORS_MAX
from tests.qmgrd.core.harness import Client, Manager


@pytest.fixture
def app() -> Client:
    """A client of a manager that has six rows of history."""
    app = Manager().connect("app")
    app.ask(m.QueueCreate, "Q", {"accounting": "on"})
    for _ in range(6):
        app.put("Q", b"x")
    return app


def test_rows_are_read_in_pages(app: Client) -> None:
    def seqs(*fields: int) -> list[int]:
        return [seq for seq, _ in app.ask(m.HistoryRead, *fields)["rows"]]

    assert seqs() == [1, 2, 3, 4, 5, 6]
    assert seqs(4) == [5, 6]
    assert seqs(2, 4) == [3, 4]
    assert seqs(2, 0, 1) == [3]
    assert seqs(6) == []
    assert app.ask(m.HistoryRead, 6)["next"] == 7


def test_rows_end_before_one_that_is_damaged(app: Client) -> None:
    store, key = app.manager.store, keys.history(4)
    tx = store.begin()
    tx.put(key, (tx.get(key) or b"")[:-1] + b"?")
    store.commit()
    assert [seq for seq, _ in app.ask(m.HistoryRead)["rows"]] == [1, 2, 3]
    assert app.code_of(m.HistoryRead, 3) == ErrorCode.STORE_DAMAGED
    assert [seq for seq, _ in app.ask(m.HistoryRead, 4)["rows"]] == [5, 6]


def test_receiver_ahead_or_behind_is_reported(app: Client) -> None:
    assert app.code_of(m.HistoryRead, 7) == ErrorCode.HISTORY_AHEAD
    assert app.code_of(m.CursorCommit, "A", 7) == ErrorCode.HISTORY_AHEAD
    app.ask(m.CursorCommit, "A", 4)
    app.put("Q", b"has the rest go")
    assert app.code_of(m.HistoryRead, 3) == ErrorCode.HISTORY_DROPPED
    assert app.code_of(m.CursorCommit, "B", 3) == ErrorCode.HISTORY_DROPPED
    assert [seq for seq, _ in app.ask(m.HistoryRead, 4)["rows"]] == [5, 6, 7]


def test_cursor_never_goes_back(app: Client) -> None:
    assert app.ask(m.CursorCommit, "A", 4)["waiting"] == 2
    assert app.ask(m.CursorCommit, "A", 2)["position"] == 4
    assert app.code_of(m.CursorCommit, "A", 9) == ErrorCode.HISTORY_AHEAD
    (row,) = app.ask(m.HistoryShow)["cursors"]
    assert (row["cursor"], row["position"], row["lost"]) == ("A", 4, 0)


def test_cursors_are_named_forgotten_and_limited(app: Client) -> None:
    assert app.code_of(m.CursorCommit, "a cursor", 0) == ErrorCode.VALUE_INVALID
    assert app.code_of(m.CursorDelete, "A") == ErrorCode.CURSOR_UNKNOWN
    for number in range(CURSORS_MAX):
        app.ask(m.CursorCommit, f"C{number}", 0)
    assert app.code_of(m.CursorCommit, "ONE.MORE", 0) == ErrorCode.CURSORS_EXHAUSTED
    app.ask(m.CursorDelete, "C0")
    app.ask(m.CursorCommit, "ONE.MORE", 0)


def test_who_answers_is_named_so_that_no_two_stores_are_mixed_up(app: Client) -> None:
    shown, read = app.ask(m.HistoryShow), app.ask(m.HistoryRead)
    assert shown["manager"] == read["manager"] == "QM1"
    assert shown["store_id"] == read["store_id"] == (b"S" * 16).hex()
