"""Tests of browses: their pages, and the position at which the next page begins."""

from typing import Any

import pytest

from qmgr_client.aio.browse import PAGE_BYTES, browse
from qmgr_client.message import decode
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import FieldInvalid, RequestError
from tests.qmgr_client.scripted import delivery

ANY = ("", b"", b"", b"")
GROUP = b"g" * 24


class Pages:
    """A function that answers browses with one page after another."""

    def __init__(self, *pages: tuple[list[bytes], Any]) -> None:
        self.asked: list[m.Browse] = []
        self._pages = list(pages)

    async def __call__(self, kind: type[Any], *fields: Any) -> dict[str, Any]:
        self.asked.append(kind(1, *fields))
        items, place = self._pages.pop(0)
        return {"items": items, "next": place}


async def test_next_is_passed_on_as_it_is() -> None:
    pages = Pages(([delivery(b"1")], [4, 1, 1, 1]), ([], [4, 9, 3, 1]), ([delivery(b"2", 2)], None))
    groups = m.LOGICAL, True
    found = [x.body async for x in browse(pages, "Q", None, None, ANY, False, groups)]
    assert found == [b"1", b"2"]
    assert [ask.after for ask in pages.asked] == [None, [4, 1, 1, 1], [4, 9, 3, 1]]
    assert pages.asked[0] == m.Browse(
        1, "Q", None, 100, PAGE_BYTES, order=m.LOGICAL, all_available=True
    )


async def test_limit_ends_it() -> None:
    pages = Pages(([delivery(b"1"), delivery(b"2")], [4, 2]), ([delivery(b"3")], [4, 3]))
    found = [x.body async for x in browse(pages, "Q", 3, None, ANY, False, (m.PHYSICAL, False))]
    assert found == [b"1", b"2", b"3"]
    assert [ask.messages_max for ask in pages.asked] == [3, 1]


@pytest.mark.parametrize(
    ("order", "place"), [(m.PHYSICAL, [4, 7]), (m.LOGICAL, [4, 7, 0, m.LOGICAL])]
)
async def test_goes_on_behind_a_message(order: int, place: list[int]) -> None:
    """E39: In logical order, a position states the order."""
    after = decode(delivery(b"x", 7), "Q", 0)
    pages = Pages(([], None))
    assert [x async for x in browse(pages, "Q", None, after, ANY, False, (order, False))] == []
    assert pages.asked[0].after == place


@pytest.mark.parametrize(("began", "goes_on"), [(m.LOGICAL, m.PHYSICAL), (m.PHYSICAL, m.LOGICAL)])
async def test_browse_goes_on_in_the_order_in_which_it_began(began: int, goes_on: int) -> None:
    """E39: A position from one order has no meaning in the other order."""
    pages = Pages(([delivery(b"x", 7)], None), ([], None))
    (after,) = [x async for x in browse(pages, "Q", 1, None, ANY, False, (began, False))]
    _ = [x async for x in browse(pages, "Q", 1, after, ANY, False, (began, False))]
    words = ["physical", "logical"]
    why = (
        f"INCONSISTENT_BROWSE: .* browsed in {words[began]} order: .* not in {words[goes_on]} order"
    )
    with pytest.raises(RequestError, match=why):
        _ = [x async for x in browse(pages, "Q", 1, after, ANY, False, (goes_on, False))]
    assert len(pages.asked) == 2


async def test_in_logical_order_it_goes_on_behind_no_member() -> None:
    after = decode(delivery(b"x", 7, group=(GROUP, 3, False)), "Q", 0)
    with pytest.raises(RequestError, match="VALUE_INVALID: a browse in logical order"):
        _ = [x async for x in browse(Pages(), "Q", None, after, ANY, False, (m.LOGICAL, False))]


async def test_message_that_is_too_long_for_a_browse_is_shown_as_cut() -> None:
    item = delivery(b"0123456789", 7, state=m.STATE_EXPIRES)
    uid = records.encode_uid(records.Uid("QM1", 7))
    kept = len(item) - m.DELIVERY_BYTES - len(uid) - 6
    short = item[: m.DELIVERY_BYTES + kept] + uid + m.REMAINING.pack(5_000)

    async def ask(kind: type[Any], *fields: Any) -> dict[str, Any]:
        return {"items": [delivery(b"whole"), short], "next": None, "cut": [[1, kept]]}

    any_order = (m.PHYSICAL, False)
    whole, cut = [x async for x in browse(ask, "Q", None, None, ANY, False, any_order)]
    assert (whole.body, whole.cut_bytes, whole.body_bytes) == (b"whole", 0, 5)
    assert (cut.body, cut.cut_bytes, cut.body_bytes, cut.damage) == (b"0123", 6, 10, "")
    assert (cut.uid, cut.expiry_left_ms) == (records.Uid("QM1", 7), 5_000)
    assert "10 bytes" in repr(cut)


@pytest.mark.parametrize("kept", [3, 24])
async def test_item_that_is_not_cut_where_the_answer_says_is_an_error(kept: int) -> None:
    async def ask(kind: type[Any], *fields: Any) -> dict[str, Any]:
        return {"items": [delivery(b"", correlation_id=b"c" * 9)], "next": None, "cut": [[0, kept]]}

    with pytest.raises(FieldInvalid, match=r"Ok\.cut: .* do not end within the body"):
        _ = [x async for x in browse(ask, "Q", None, None, ANY, False, (m.PHYSICAL, False))]
