"""Tests of the contents of the screen at different sizes."""

from typing import Any

import pytest
from rich.cells import cell_len

from qmgr_tools.top.model import Frame
from qmgr_tools.top.text import HELP, PaintedScreen, ScreenStatus, paint
from qmgr_tools.top.view import Board

HEAD = {
    "name": "NYC",
    "software": "qmgrd/0.1.0",
    "uptime_ms": 3_665_000,
    "messages": 12_345,
    "leased": 7,
    "store_used_bytes": 1 << 20,
    "store_map_bytes": 1 << 30,
    "store_percent": 0.1,
    "cpu_percent": 12.4,
    "put_rate": 9_759.0,
    "get_rate": 4.5,
    "ack_rate": 0.0,
    "turn_rate": None,
    "store_full": "",
}


def queue(name: str, ready: int, **told: Any) -> dict[str, Any]:
    known = {
        "leased": 0,
        "put_rate": 1.5,
        "get_rate": None,
        "ack_rate": 0.0,
        "bytes": 2_048,
        "consumers": 1,
        "state": "open",
        "trend": (1, 2, 4),
        "depth_max": 100_000,
    }
    return {"queue": name, "ready": ready} | known | told


def frame_of(count: int = 3, **head: Any) -> Frame:
    link = {
        "key": "out LHR",
        "link": "LHR",
        "direction": "out",
        "state": "refused",
        "waiting": 4,
        "in_flight": 0,
        "rate": 0.0,
        "commit_id": 9,
        "addresses": ["lhr:7470"],
        "error": "PEER_STORE_CHANGED: " + "another store " * 12,
    }
    rows = {
        "queues": [queue(f"Q{number:04}", 100_000 - number) for number in range(count)],
        "links": [link],
        "connections": [],
    }
    return Frame(HEAD | head, rows)


def shown(page: PaintedScreen) -> list[str]:
    return [line.plain.rstrip() for line in page.lines]


def test_screen_reads_so() -> None:
    page = paint(frame_of(2), Board(), ScreenStatus(), 80, 12)
    assert shown(page) == [
        "NYC  qmgrd/0.1.0  up 1 h 1 min                                         every 2 s",
        "messages 12,345   leased 7   store 1 MiB of 1 GiB, 0.1 %   cpu 12 %",
        "puts/s 9,759   deliveries/s 4.5   acks/s 0   turns/s -",
        "",
        " 1 queues 2   2 links 1   3 connections 0",
        "QUEUE    READY▼  LEASED  PUT/S  GET/S  ACK/S  BYTES  CONS STATE            DEPTH",
        "Q0000   100,000       0    1.5             0  2 KiB     1 open               ▃▅█",
        "Q0001    99,999       0    1.5             0  2 KiB     1 open               ▃▅█",
        "",
        "",
        "",
        "1 2 3 view  / filter  < > sort  r reverse  p pause  enter detail  ? help  q quit",
    ]


@pytest.mark.parametrize("detailed", [False, True])
@pytest.mark.parametrize("view", ["queues", "links", "connections"])
@pytest.mark.parametrize("size", [(80, 24), (140, 40), (40, 10), (20, 4)])
def test_screen_is_as_large_as_the_terminal(
    size: tuple[int, int], view: str, detailed: bool
) -> None:
    board = Board(is_detailed=detailed)
    board.show(view)
    page = paint(frame_of(60), board, ScreenStatus(), *size)
    assert len(page.lines) == size[1]
    assert max(cell_len(line) for line in shown(page)) <= size[0]
    assert "q quit" in shown(page)[-1] or size[0] < 80


def test_window_follows_the_cursor_and_stays_where_it_can() -> None:
    board, frame = Board(), frame_of(60)
    rows = board.rows(frame)
    assert paint(frame, board, ScreenStatus(), 80, 24).rows_shown == 17
    for place, top in ((16, 0), (17, 1), (40, 24), (30, 24), (24, 24), (23, 23), (59, 43), (0, 0)):
        board.move(rows, place)
        page = paint(frame, board, ScreenStatus(), 80, 24, top if place != 40 else 1)
        assert page.first_row == top
        assert f"Q{place:04}" in shown(page)[6 + place - top]


def test_chosen_row_is_reversed_all_the_way() -> None:
    page = paint(frame_of(3), Board(), ScreenStatus(), 80, 12)
    assert [str(line.style) for line in page.lines[6:9]] == ["reverse", "", ""]
    assert len(page.lines[6].plain) == 80


def test_lost_queue_manager_is_told_in_red_over_the_last_that_is_known() -> None:
    page = paint(frame_of(), Board(), ScreenStatus(lost="cannot connect to h:1", tries=3), 80, 12)
    assert shown(page)[3] == "NOT CONNECTED, attempt 3: cannot connect to h:1"
    assert "red" in str(page.lines[3].style)
    assert "Q0000" in shown(page)[6]
    page = paint(Frame(), Board(), ScreenStatus(lost="x", tries=1), 80, 12)
    assert (shown(page)[3], shown(page)[6]) == ("NOT CONNECTED: x", "waiting for the first sample")


def test_full_store_is_told() -> None:
    page = paint(frame_of(store_full="the store uses all"), Board(), ScreenStatus(), 80, 12)
    assert shown(page)[3] == "PUTS ARE REFUSED: the store uses all"


def test_pause_is_told() -> None:
    assert shown(paint(frame_of(), Board(), ScreenStatus(is_paused=True), 80, 12))[0].endswith(
        "  paused"
    )


def test_filter_is_told_with_how_many_fit() -> None:
    board = Board()
    board.filters["queues"] = "Q0001"
    tabs = shown(paint(frame_of(), board, ScreenStatus(is_filtering=True), 80, 12))
    assert tabs[4] == " 1 queues 1 of 3   2 links 1   3 connections 0   / Q0001"
    assert tabs[-1] == "enter apply  escape cancel   examples: ord, ready>0"
    board.filters["queues"] = "nobody"
    assert shown(paint(frame_of(), board, ScreenStatus(), 80, 12))[6] == "no row matches 'nobody'"


def test_view_without_rows_says_so() -> None:
    board = Board()
    board.show("connections")
    assert shown(paint(frame_of(), board, ScreenStatus(), 80, 12))[6] == "no connections exist"


def test_detail_has_all_that_is_known_of_the_row() -> None:
    board = Board(is_detailed=True)
    lines = shown(paint(frame_of(), board, ScreenStatus(), 80, 24))
    start = next(number for number, line in enumerate(lines) if line.startswith("── Q0000 ──"))
    text = "\n".join(lines[start:-1])
    assert "depth             ▃▅█  highest 4" in text
    assert "depth max         100,000" in text
    assert "put/s             1.5" in text
    assert "get/s" not in text  # The rate is unknown.


def test_long_error_is_folded_in_the_detail_and_cut_in_the_table() -> None:
    board = Board(is_detailed=True)
    board.show("links")
    lines = shown(paint(frame_of(), board, ScreenStatus(), 80, 30))
    assert lines[6].endswith("…")
    text = " ".join(line[18:] for line in lines[7:])
    assert text.count("another store") == 12


def test_detail_leaves_rows_to_be_seen() -> None:
    board = Board(is_detailed=True)
    lines = shown(paint(frame_of(), board, ScreenStatus(), 80, 14))
    assert ["Q0000" in line for line in lines[6:9]] == [True, False, False]
    assert any(line.startswith("──") for line in lines)


def test_wide_letters_keep_the_columns_in_line() -> None:
    rows = [{"connection": 1, "name": "注文サービス" * 9, "kind": "client", "waiting": 7}]
    board = Board()
    board.show("connections")
    page = paint(Frame(HEAD, {"connections": rows}), board, ScreenStatus(), 80, 12)
    assert cell_len(page.lines[6].plain) == cell_len(page.lines[5].plain) == 80


def test_page_tells_the_mouse_what_is_where() -> None:
    page = paint(frame_of(), Board(), ScreenStatus(), 80, 12)
    tabs, titles = page.lines[page.tabs_line].plain, page.lines[page.titles_line].plain
    assert [tabs[left:right].split()[1] for left, right, _ in page.tabs] == [
        name for _, _, name in page.tabs
    ]
    left, right, _ = next(found for found in page.titles if found[2] == "put_rate")
    assert titles[left:right].strip() == "PUT/S"


def test_help_fits_80_columns() -> None:
    assert max(map(len, HELP.splitlines())) <= 74
