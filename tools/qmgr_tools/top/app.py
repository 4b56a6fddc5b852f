"""The full screen of qmctl top. Keys and the mouse change the board, samples change the frame.

text.py draws the screen, and view.py selects its contents. This module needs a terminal.
"""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Protocol

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from qmgr_tools.cli import humanize
from qmgr_tools.top.feed import NoAnswer
from qmgr_tools.top.model import Frame, Model, Sample
from qmgr_tools.top.text import HELP, PaintedScreen, ScreenStatus, paint
from qmgr_tools.top.view import TREND, VIEWS, Board, fault_of

WHEEL_ROWS = 3
WIDTH_MIN = 20


class SampleSource(Protocol):
    """The source of samples, which is a Feed or a test."""

    async def sample(self) -> Sample:
        """Returns the current state, or raises NoAnswer."""

    async def close(self) -> None:
        """Closes the source."""


class BoardTable(Widget, can_focus=True):
    """The main widget, which shows the board."""

    def __init__(self, painter: Callable[[int, int], PaintedScreen]) -> None:
        super().__init__()
        self._painter = painter

    def render(self) -> Text:
        """Returns the current screen."""
        lines = self._painter(max(self.size.width, WIDTH_MIN), self.size.height).lines
        return Text("\n", no_wrap=True, overflow="crop").join(lines)


class Help(ModalScreen[None]):
    """The help about keys, which any key closes."""

    CSS = """
    Help { align: center middle; }
    Help Static { width: auto; height: auto; padding: 0 1; border: round $primary; }
    """

    def compose(self) -> ComposeResult:
        """Yields the help text."""
        yield Static(HELP.rstrip(), markup=False)

    def on_key(self, event: events.Key) -> None:
        """Closes the help."""
        event.stop()
        self.dismiss()


class TopApp(App[None]):
    """The full screen, which takes samples even while paused, so that rates stay correct."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    BoardTable { height: 1fr; }
    Input { dock: bottom; height: 1; border: none; padding: 0; display: none; }
    Input:focus { border: none; }
    Input.open { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit"),
        Binding("ctrl+c,ctrl+q", "quit", priority=True),
        *(Binding(str(n), f"view('{name}')") for n, name in enumerate(VIEWS, 1)),
        Binding("tab", "step_view(1)", priority=True),
        Binding("shift+tab", "step_view(-1)", priority=True),
        Binding("up,k", "move(-1)"),
        Binding("down,j", "move(1)"),
        Binding("pageup", "page(-1)"),
        Binding("pagedown", "page(1)"),
        Binding("home,g", "move(-1000000000)"),
        Binding("end,G", "move(1000000000)"),
        Binding("less_than_sign,left", "sort(-1)"),
        Binding("greater_than_sign,right", "sort(1)"),
        Binding("r", "reverse"),
        Binding("p,space", "pause"),
        Binding("slash", "filter"),
        Binding("enter", "detail"),
        Binding("escape", "close_panel"),
        Binding("question_mark,h", "help"),
    ]

    def __init__(self, source: SampleSource, delay_s: float, view: str = "queues") -> None:
        super().__init__()
        self._table = BoardTable(self._painted)
        self._line = Input(compact=True)  # the input line of the filter
        self.board = Board(VIEWS[view])
        self.page = PaintedScreen()
        self._source = source
        self._delay_s = delay_s
        self._model = Model()
        self._frame = self._latest = Frame()  # the frame that is shown, and the latest frame
        self._is_paused = False
        self._lost, self._tries = "", 0

    def compose(self) -> ComposeResult:
        """Yields the widgets."""
        yield self._table
        yield self._line

    def on_mount(self) -> None:
        """Starts to take samples."""
        self._table.focus()
        self.run_worker(self._watch(), exclusive=True)

    async def _watch(self) -> None:
        try:
            while True:
                await self._update()
                self.repaint()
                await asyncio.sleep(self._delay_s)
        finally:
            await self._source.close()

    async def _update(self) -> None:
        try:
            sample = await self._source.sample()
        except NoAnswer as lost:
            self._lost, self._tries = str(lost), self._tries + 1
            return
        self._lost, self._tries = "", 0
        self._latest = self._model.take(sample)
        if not self._is_paused:
            self._frame = self._latest

    def _painted(self, width: int, height: int) -> PaintedScreen:
        delay = humanize.duration(round(self._delay_s * 1000))
        is_filtering = self._line.has_class("open")
        status = ScreenStatus(delay, self._is_paused, is_filtering, self._lost, self._tries)
        self.page = paint(self._frame, self.board, status, width, height, self.page.first_row)
        return self.page

    def repaint(self) -> None:
        """Draws the screen again."""
        self._table.refresh()

    def _move(self, step: int) -> None:
        rows = self.board.rows(self._frame)
        self.board.move(rows, self.board.cursor(rows) + step)
        self.repaint()

    def action_move(self, step: int) -> None:
        """Moves the cursor."""
        self._move(step)

    def action_page(self, step: int) -> None:
        """Moves the cursor by a screen."""
        self._move(step * max(1, self.page.rows_shown - 1))

    def action_view(self, name: str) -> None:
        """Shows another view."""
        self.board.show(name)
        self.repaint()

    def action_step_view(self, step: int) -> None:
        """Shows the next or the previous view."""
        self.board.step_view(step)
        self.repaint()

    def action_sort(self, step: int) -> None:
        """Sorts by the next or the previous column."""
        self.board.step_sort(step, self.page.fitted.columns)
        self.repaint()

    def action_reverse(self) -> None:
        """Reverses the order."""
        self.board.reverse()
        self.repaint()

    def action_pause(self) -> None:
        """Pauses or resumes the screen."""
        self._is_paused = not self._is_paused
        self._frame = self._frame if self._is_paused else self._latest
        self.repaint()

    def action_detail(self) -> None:
        """Shows or hides the details of a row."""
        self.board.is_detailed = not self.board.is_detailed
        self._move(0)  # From now on, the cursor follows its row, even the first row.

    def action_help(self) -> None:
        """Shows the help about keys."""
        self.push_screen(Help())

    def action_filter(self) -> None:
        """Opens the input line of the filter."""
        self._line.add_class("open")
        self._line.value = self.board.filter
        self._line.focus()
        self.repaint()

    def action_close_panel(self) -> None:
        """Closes the filter's input line or else the details, or else removes the filter."""
        if self._line.has_class("open"):
            self._close_filter("")
        elif self.board.is_detailed:
            self.board.is_detailed = False
        else:
            self.board.filters.pop(self.board.view.name, None)
        self.repaint()

    def _close_filter(self, text: str) -> None:
        self.board.filters[self.board.view.name] = text
        self._line.remove_class("open")
        self._table.focus()
        self.repaint()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Applies the filter while the user types."""
        if event.input.has_class("open"):
            self.board.filters[self.board.view.name] = event.value
            self.repaint()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Applies the filter if it is valid, and closes the input line."""
        fault = fault_of(event.value, self.board.view)
        if fault:
            self.notify(fault, title="invalid filter", severity="error", markup=False)
        else:
            self._close_filter(event.value.strip())

    def on_click(self, event: events.Click) -> None:
        """Selects the view, column or row under the mouse."""
        page, place = self.page, event.screen_y - self.page.titles_line - 1
        if event.screen_y == page.tabs_line:
            for left, right, name in page.tabs:
                if left <= event.screen_x < right:
                    self.action_view(name)
        elif event.screen_y == page.titles_line:
            for left, right, key in page.titles:
                if left <= event.screen_x < right and key != TREND:
                    self.board.sort_by(key)
                    self.repaint()
        elif 0 <= place < page.rows_shown:
            rows = self.board.rows(self._frame)
            self.board.move(rows, page.first_row + place)
            self.repaint()

    def on_mouse_scroll_down(self) -> None:
        """Moves the cursor down."""
        self._move(WHEEL_ROWS)

    def on_mouse_scroll_up(self) -> None:
        """Moves the cursor up."""
        self._move(-WHEEL_ROWS)
