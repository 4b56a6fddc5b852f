"""Tests of browses in logical order: the position after each page, and refused cursors."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.queue import browse
from tests.qmgrd.core.harness import Client, record

A, B = b"a" * 24, b"b" * 24


def page_of(
    app: Client, after: Any, count: int = 100, *, all_available: bool = False
) -> dict[str, Any]:
    """Returns a page in logical order."""
    value: dict[str, Any] = app.ask(
        m.Browse,
        *m.Browse(0, "Q", after, count, 1 << 20, order=m.LOGICAL, all_available=all_available)[1:],
    )
    return value


def fill(app: Client) -> None:
    """Puts two groups whose messages alternate, and a message without a group."""
    members = [(A, 2), (B, 1), (A, 1), (B, 3), (A, 3)]
    app.put_records(
        "Q",
        *[
            record(group_id[:1] + b"%d" % number, group=(group_id, number, False))
            for group_id, number in members
        ],
    )
    app.put("Q", b"free")


WORDS = [b"a1", b"a2", b"a3", b"b1", b"b2", b"b3", b"free"]


@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_pages_of_any_length_show_the_same(app: Client, count: int) -> None:
    """A page shows the messages of a group in order, up to the first gap."""
    fill(app)
    found: list[bytes] = []
    after: list[int] | None = None
    while True:
        page = page_of(app, after, count)
        found += [item[m.DELIVERY_BYTES :] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    groups = [next(word for word in WORDS if word in item) for item in found]
    assert groups == [b"b1", b"a1", b"a2", b"a3", b"free"]


@pytest.mark.parametrize(
    "after",
    [
        [4, 0],
        [4, 0, 1],
        [4, 0, 1, 0],
        [4, 0, "x", 1],
        [4, 0, None, 1],
        [4, 0, -1, 1],
        [4, 0, 10**9, 1],
        [10, 0, 1, 1],
    ],
)
def test_cursor_of_another_order_or_kind_is_refused(app: Client, after: list[Any]) -> None:
    fill(app)
    request = m.Browse(0, "Q", after, 10, 1 << 20, order=m.LOGICAL)
    assert app.code_of(m.Browse, *request[1:]) == ErrorCode.INCONSISTENT_BROWSE


def test_cursor_of_logical_order_is_refused_in_physical_order(app: Client) -> None:
    fill(app)
    after = page_of(app, None, 1)["next"]
    request = m.Browse(0, "Q", after, 10, 1 << 20)
    assert app.code_of(m.Browse, *request[1:]) == ErrorCode.INCONSISTENT_BROWSE


def test_unknown_fields_of_a_cursor_are_ignored(app: Client) -> None:
    """A newer client may add fields."""
    fill(app)
    after = page_of(app, None, 1)["next"]
    assert len(page_of(app, [*after, "more"])["items"]) == 4
    assert page_of(app, [*after[:2], 10**9 - 1, *after[3:]])["next"] is None


def test_groups_whose_first_member_has_left_are_passed_in_slices(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These groups are otherwise complete. Skipping them keeps none of their rows in memory."""
    monkeypatch.setattr(browse, "LOOKED_AT_MAX", 3)
    groups = [b"%024d" % number for number in range(8)]
    whole = groups[6]
    app.put_records("Q", *[record(b"first", group=(x, 1, False)) for x in groups if x != whole])
    app.ack(*app.get("Q", 7))
    app.put_records("Q", *[record(b"rest", group=(x, 1 + (x != whole), True)) for x in groups])
    app.manager.restart()
    app = app.manager.connect()
    pages: list[int] = []
    after = None
    while not pages or after is not None:
        page = page_of(app, after, all_available=True)
        pages.append(len(page["items"]))
        after = page["next"]
    assert pages == [0, 0, 1]
    assert app.manager.queue("Q").groups._rows == {}


def test_cursor_without_a_group_is_that_of_a_message_without_a_group(app: Client) -> None:
    fill(app)
    after = page_of(app, None, 1)["next"]
    assert len(page_of(app, [*after[:2], 0, m.LOGICAL])["items"]) == 5
    with pytest.raises(RequestError, match="INCONSISTENT_BROWSE"):
        page_of(app, [*after[:4], 1, 2])


def test_group_continues_after_the_shown_members_while_it_is_consumed(app: Client) -> None:
    batch = [record(b"%02d" % n, group=(A, n, False)) for n in range(1, 11)]
    app.put_records("Q", *batch)
    reader = app.manager.connect("reader")
    request_id = reader.next_id()
    reader.send(m.Consume(request_id, "Q", 1, 1 << 20, order=m.LOGICAL))
    app.manager.rest()
    found: list[bytes] = []
    after: list[int] | None = None
    for _ in range(4):
        page = page_of(app, after, 3)
        found += [item[-2 - 11 :][:2] for item in page["items"]]
        after = page["next"]
        reader.ack(*reader.delivered())
        reader.send(m.Credit(request_id, 1, 0))
        app.manager.rest()
    assert after is None
    assert found == [b"%02d" % n for n in range(1, 11)]
