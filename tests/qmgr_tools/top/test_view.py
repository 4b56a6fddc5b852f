"""Tests of the rows of a view, their order, and the columns that fit on the screen."""

from typing import Any

import pytest

from qmgr_tools.top.model import Frame
from qmgr_tools.top.view import (
    CONNECTIONS,
    GAP,
    LINKS,
    QUEUES,
    VIEWS,
    Board,
    bars,
    fault_of,
    fit,
    ordered,
    rate_text,
)


def queue(name: str, ready: int | None = 0, **told: Any) -> dict[str, Any]:
    known = {
        "leased": 0,
        "put_rate": 0.0,
        "get_rate": 0.0,
        "ack_rate": 0.0,
        "bytes": 0,
        "consumers": 0,
        "state": "open",
        "trend": (0,),
    }
    return {"queue": name, "ready": ready} | known | told


FRAME = Frame(
    {},
    {
        "queues": [
            queue("b", 5),
            queue("A", 5),
            queue("empty"),
            queue("far@NYC", None, state="waiting"),
            queue("most", 9, put_rate=2.5),
        ],
        "links": [],
        "connections": [{"connection": n, "name": f"c{n}", "leased": n % 3} for n in (1, 2, 3)],
    },
)


def names(board: Board) -> list[str]:
    return [row["queue"] for row in board.rows(FRAME)]


def test_fullest_queue_is_first_ties_go_by_name_and_what_has_none_is_last() -> None:
    assert names(Board()) == ["most", "A", "b", "empty", "far@NYC"]


def test_order_is_reversed_but_for_ties_and_for_what_lacks_it() -> None:
    board = Board()
    board.reverse()
    assert names(board) == ["empty", "A", "b", "most", "far@NYC"]


def test_text_is_sorted_upwards_first_numbers_downwards() -> None:
    board = Board()
    board.sort_by("queue")
    assert (board.sort, names(board)[0]) == (("queue", False), "A")
    board.sort_by("put_rate")
    assert board.sort == ("put_rate", True)
    board.sort_by("put_rate")
    assert board.sort == ("put_rate", False)


def test_sorting_steps_through_the_columns_that_are_shown() -> None:
    board = Board()
    shown = [column for column in QUEUES.columns if column.key in ("queue", "ready", "trend")]
    board.step_sort(1, shown)
    assert board.sort == ("queue", False)  # The trend cannot be sorted.
    board.step_sort(-1, shown)
    assert board.sort == ("ready", True)
    board.sort_by("bytes")  # The column is no longer shown.
    board.step_sort(1, shown)
    assert board.sort == ("queue", False)


def test_addresses_can_be_sorted_by() -> None:
    rows = [
        {"key": "b", "addresses": ["h:2"]},
        {"key": "a", "addresses": []},
        {"key": "c", "addresses": ["h:1"]},
    ]
    assert [row["key"] for row in ordered(rows, "addresses", "key", falls=False)] == ["a", "c", "b"]


def test_each_view_has_its_own_order_filter_and_cursor() -> None:
    board = Board()
    board.filters["queues"] = "most"
    board.step_view(-1)
    assert (board.view.name, board.filter, board.sort) == ("connections", "", ("connection", False))
    board.sort_by("leased")
    board.step_view(1)
    assert (board.view.name, board.filter, board.sort) == ("queues", "most", ("ready", True))


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", ["most", "A", "b", "empty", "far@NYC"]),
        ("MO", ["most"]),
        ("waiting", ["far@NYC"]),
        ("ready>0", ["most", "A", "b"]),
        ("ready>=9", ["most"]),
        ("put_rate>2", ["most"]),
        ("queue=*@NYC", ["far@NYC"]),
        (
            "ready>",
            ["most", "A", "b", "empty", "far@NYC"],
        ),  # The user is still typing this condition.
        ("nobody", []),
    ],
)
def test_filter_is_a_part_of_a_text_or_a_condition(said: str, found: list[str]) -> None:
    board = Board()
    board.filters["queues"] = said
    assert names(board) == found


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("ready>0", ""),
        ("ord", ""),
        ("ready>x", '"x" is not a whole number'),
        ("colour=red", "column names"),
    ],
)
def test_fault_of_a_filter_is_told(said: str, why: str) -> None:
    fault = fault_of(said, QUEUES)
    assert fault.startswith(why)
    assert bool(fault) == bool(why)


def test_cursor_follows_its_row() -> None:
    board = Board()
    rows = board.rows(FRAME)
    assert board.cursor(rows) == 0
    board.move(rows, 2)
    assert rows[2]["queue"] == "b"
    board.reverse()
    assert board.rows(FRAME)[board.cursor(board.rows(FRAME))]["queue"] == "b"


def test_cursor_on_the_first_row_stays_on_top() -> None:
    board = Board()
    board.move(board.rows(FRAME), 0)
    board.reverse()
    assert board.cursor(board.rows(FRAME)) == 0


def test_cursor_of_a_row_that_is_gone_keeps_its_place() -> None:
    board = Board()
    board.move(board.rows(FRAME), 2)
    assert board.cursor([{"queue": "x"}, {"queue": "y"}]) == 1
    assert board.cursor([{"queue": "x"}, {"queue": "y"}, {"queue": "z"}, {"queue": "u"}]) == 2
    assert board.cursor([]) == 0


@pytest.mark.parametrize("place", [-5, 99])
def test_cursor_stays_within_the_rows(place: int) -> None:
    board = Board()
    rows = board.rows(FRAME)
    board.move(rows, place)
    assert board.cursor(rows) == (0 if place < 0 else len(rows) - 1)
    board.move([], place)
    assert board.cursor([]) == 0


@pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)
def test_wide_room_has_all_columns_that_are_told(view: Any) -> None:
    shown = [column.key for column in fit(view, [], 200).columns]
    assert shown == [column.key for column in view.columns if column.key not in view.optional]


@pytest.mark.parametrize("room", range(20, 161, 7))
@pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)
def test_columns_fill_the_room_and_no_more(view: Any, room: int) -> None:
    rows = FRAME.rows["queues"] + FRAME.rows["connections"]
    fitted = fit(view, rows, room)
    total = sum(fitted.widths) + GAP * (len(fitted.widths) - 1)
    assert total == room if view.grows in {c.key for c in fitted.columns} else True
    assert total <= room or not set(view.removable) & {c.key for c in fitted.columns}
    assert fitted.columns[0] is view.columns[0]


def test_queues_of_80_columns_have_what_matters() -> None:
    rows = [queue("billing.invoices", 57_360, bytes=28_000_000, put_rate=1_607.0)]
    assert [column.key for column in fit(QUEUES, rows, 80).columns] == [
        "queue",
        "ready",
        "leased",
        "put_rate",
        "get_rate",
        "ack_rate",
        "bytes",
        "consumers",
        "state",
    ]


def test_name_gives_way_before_a_column_does() -> None:
    rows = [queue("a" * 64, 57_360)]
    fitted = fit(QUEUES, rows, 90)
    assert "bytes" in {column.key for column in fitted.columns}
    assert 18 <= fitted.widths[0] < 64


def test_column_without_values_is_not_shown() -> None:
    up = {"key": "out A", "link": "A", "error": "", "down_ms": None, "redial_ms": None}
    assert "error" not in {column.key for column in fit(LINKS, [up], 160).columns}
    down = up | {"error": "refused", "down_ms": 5, "redial_ms": 9}
    shown = {column.key for column in fit(LINKS, [up, down], 160).columns}
    assert {"error", "down_ms", "redial_ms"} <= shown


def test_connections_of_80_columns_tell_what_waits() -> None:
    row = {
        "connection": 12,
        "name": "billing.host7.4711",
        "kind": "client",
        "address": "127.0.0.1:33459",
        "waiting": 0,
        "waiting_bytes": 0,
        "unsent_bytes": 0,
        "leased": 0,
        "consumers": 0,
        "gets": 0,
        "open_ms": 184_000,
        "software": "x",
    }
    shown = {column.key for column in fit(CONNECTIONS, [row], 80).columns}
    assert {"connection", "name", "waiting", "waiting_bytes", "leased", "open_ms"} <= shown


def test_bars_are_as_high_as_the_highest_allows() -> None:
    assert bars((0, 1, 4, 8), 10) == "▁▂▅█"
    assert bars((1_000_000, 1), 10) == "█▂"  # A small value still has a bar.
    assert bars((9, 0, 0), 2) == "▁▁"
    assert bars((1, 2), 0) == bars((), 5) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (4.5, "4.5"), (99.0, "99"), (100.4, "100"), (9_759.2, "9,759")]
)
def test_rate_reads_well(value: float, text: str) -> None:
    assert rate_text(value) == text
