"""Tests of keys and the mouse on a simulated terminal, with scripted samples."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from qmgr_tools.top.app import Help, TopApp
from qmgr_tools.top.feed import NoAnswer
from qmgr_tools.top.model import Sample

STATUS = {"name": "NYC", "boot": 1, "turn": 5, "cpu_ms": 0, "messages": 9}


class Script:
    """A source of samples, which a test provides."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[Sample | NoAnswer] = asyncio.Queue()
        self.asked = asyncio.Semaphore(0)
        self.is_closed = False

    async def sample(self) -> Sample:
        self.asked.release()
        found = await self.given.get()
        if isinstance(found, NoAnswer):
            raise found
        return found

    async def close(self) -> None:
        self.is_closed = True


class Top:
    """The app and its visible contents."""

    def __init__(self, app: TopApp, pilot: Pilot[None], script: Script) -> None:
        self.app, self.pilot, self.script = app, pilot, script
        self.time_ms = 0

    async def give(self, what: Sample | NoAnswer) -> None:
        """Gives *what* to the app, and waits until the app asks for the next sample."""
        self.script.given.put_nowait(what)
        await self.script.asked.acquire()
        await self.pilot.pause()

    async def tell(self, **ready: int) -> None:
        """Gives the app a sample one second later, in which queues hold *ready* messages."""
        self.time_ms += 1_000
        queues = [
            {
                "queue": name,
                "kind": "local",
                "queue_id": 1,
                "ready": count,
                "depth": count,
                "puts": count,
                "delivered": 0,
                "acked": 0,
                "leased": 0,
                "bytes": 0,
                "consumers": 0,
            }
            for name, count in ready.items()
        ]
        links = [{"link": "HUB", "state": "up", "transferred": 0, "addresses": ["h:1"]}]
        connections = [{"connection": 8, "name": "billing", "kind": "client"}]
        await self.give(Sample(self.time_ms, STATUS, queues, links, [], connections))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        return [line.plain.rstrip() for line in self.app.page.lines]

    @property
    def names(self) -> list[str]:
        """The cells of the first column of the table."""
        rows = self.lines[self.app.page.titles_line + 1 :]
        return [line.split()[0] for line in rows[: self.app.page.rows_shown] if line.strip()]

    @property
    def chosen(self) -> str:
        """The name of the row under the cursor."""
        (found,) = [line for line in self.app.page.lines if str(line.style) == "reverse"]
        return found.plain.split()[0]

    @property
    def titles(self) -> str:
        return self.lines[self.app.page.titles_line]


@asynccontextmanager
async def running(size: tuple[int, int] = (80, 24), view: str = "queues") -> AsyncIterator[Top]:
    script = Script()
    app = TopApp(script, 0, view)
    async with asyncio.timeout(30), app.run_test(size=size) as pilot:
        await script.asked.acquire()
        top = Top(app, pilot, script)
        await top.tell(small=1, large=9, middle=5)
        yield top
    assert script.is_closed


async def test_rows_come_with_their_rates() -> None:
    async with running() as top:
        assert top.names == ["large", "middle", "small"]
        await top.tell(small=1, large=9, middle=15)
        assert top.names == ["middle", "large", "small"]
        assert top.lines[6].split()[:4] == ["middle", "15", "0", "10"]
        assert top.lines[2].startswith("puts/s 10")


async def test_views_are_switched_by_number_and_by_tab() -> None:
    async with running() as top:
        for key, title in (
            ("2", "LINK▲"),
            ("3", "ID▲"),
            ("1", "QUEUE"),
            ("tab", "LINK▲"),
            ("shift+tab", "QUEUE"),
            ("shift+tab", "ID▲"),
        ):
            await top.press(key)
            assert top.titles.startswith(title)


async def test_view_to_begin_with() -> None:
    async with running(view="connections") as top:
        assert top.names == ["8"]


async def test_order_is_changed_by_keys() -> None:
    async with running() as top:
        await top.press("r")
        assert (top.names, "READY▲" in top.titles) == (["small", "middle", "large"], True)
        await top.press("<")
        assert (top.names, "QUEUE▲" in top.titles) == (["large", "middle", "small"], True)
        await top.press(">", ">")
        assert "LEASED▼" in top.titles


async def test_cursor_moves_and_stays_with_its_row() -> None:
    async with running() as top:
        await top.press("down")
        assert top.chosen == "middle"
        await top.tell(small=99, large=9, middle=5)
        assert (top.names[0], top.chosen) == ("small", "middle")
        await top.press("end")
        assert top.chosen == "middle"
        await top.press("home")
        assert top.chosen == "small"
        await top.press("pagedown")
        assert top.chosen == "middle"
        await top.press("up", "up", "up")
        assert top.chosen == "small"


async def test_filter_works_while_it_is_typed_and_after() -> None:
    async with running() as top:
        await top.press("slash", "l", "a", "r")
        assert top.names == ["large"]
        await top.press("q")  # In the filter, q is a letter and does not quit.
        assert top.lines[6] == "no row matches 'larq'"
        await top.press("backspace", "enter")
        await top.tell(larger=3, large=9, middle=5)
        assert (top.names, "2 of 3" in top.lines[4]) == (["large", "larger"], True)
        await top.press("escape")
        assert len(top.names) == 3


async def test_filter_is_dropped_while_it_is_typed() -> None:
    async with running() as top:
        await top.press("slash", "l", "escape")
        assert len(top.names) == 3
        await top.press("r")  # The table receives keys again.
        assert "READY▲" in top.titles


async def test_condition_that_is_none_is_told_and_can_be_mended() -> None:
    async with running() as top:
        await top.press("slash", *"ready>x", "enter")
        assert "is not a whole number" in "".join(note.message for note in top.app._notifications)
        await top.press("backspace", "4", "enter")
        assert top.names == ["large", "middle"]


@pytest.mark.parametrize("key", ["p", "space"])
async def test_pause_holds_the_picture_and_the_rates_are_right_after(key: str) -> None:
    async with running() as top:
        await top.press(key)
        await top.tell(small=50, large=9, middle=5)
        await top.tell(small=70, large=9, middle=5)
        assert (top.names[0], top.lines[0].endswith("paused")) == ("large", True)
        await top.press("r")  # The paused table can be sorted.
        assert top.names[0] == "small"
        await top.press("r", key)
        assert top.lines[6].split()[:4] == ["small", "70", "0", "20"]  # the rate in the last second
        assert not top.lines[0].endswith("paused")


async def test_detail_follows_the_cursor() -> None:
    async with running() as top:
        await top.press("enter")
        assert any(line.startswith("── large ─") for line in top.lines)
        await top.tell(small=99, large=9, middle=5)
        assert top.chosen == "large"
        await top.press("up")
        assert any(line.startswith("── small ─") for line in top.lines)
        await top.press("enter")
        assert not any(line.startswith("──") for line in top.lines)
        await top.press("enter", "escape")
        assert not any(line.startswith("──") for line in top.lines)


async def test_lost_queue_manager_is_shown_and_tried_again() -> None:
    async with running() as top:
        await top.give(NoAnswer("cannot connect to h:1: Connection refused"))
        assert top.lines[3] == "NOT CONNECTED: cannot connect to h:1: Connection refused"
        assert top.names == ["large", "middle", "small"]
        await top.give(NoAnswer("cannot connect to h:1: Connection refused"))
        assert top.lines[3].startswith("NOT CONNECTED, attempt 2: ")
        await top.tell(large=19)
        assert (top.lines[3], top.names) == ("", ["large"])


async def test_help_is_shown_until_a_key() -> None:
    async with running() as top:
        await top.press("question_mark")
        assert isinstance(top.app.screen, Help)
        await top.tell(large=10)  # Samples are still taken.
        await top.press("q")
        assert not isinstance(top.app.screen, Help)
        assert top.names == ["large"]


async def test_mouse_chooses_views_titles_and_rows() -> None:
    async with running() as top:
        page = top.app.page
        await top.pilot.click(offset=(1, page.titles_line + 3))
        await top.pilot.pause()
        assert top.chosen == "small"
        await top.pilot.click(offset=(1, page.titles_line))
        await top.pilot.pause()
        assert "QUEUE▲" in top.titles
        left = next(left for left, _, name in page.tabs if name == "links")
        await top.pilot.click(offset=(left + 1, page.tabs_line))
        await top.pilot.pause()
        assert top.titles.startswith("LINK▲")


async def test_other_size_is_painted_anew() -> None:
    async with running((140, 40)) as top:
        assert len(top.lines) == 40
        assert "DEPTH" in top.titles
        await top.pilot.resize_terminal(60, 12)
        await top.pilot.pause()
        assert len(top.lines) == 12
        assert "DEPTH" not in top.titles


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_key_that_quits(key: str) -> None:
    script = Script()
    app = TopApp(script, 0)
    async with asyncio.timeout(30), app.run_test() as pilot:
        await script.asked.acquire()
        await pilot.press(key)
    assert (app.return_code, script.is_closed) == (0, True)


async def test_bug_is_not_hidden() -> None:
    class Broken(Script):
        async def sample(self) -> Sample:
            raise ZeroDivisionError

    async def run() -> Any:
        async with TopApp(Broken(), 0).run_test() as pilot:
            await pilot.pause()

    with pytest.raises(Exception, match="ZeroDivision"):
        await run()
