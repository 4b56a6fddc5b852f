"""Checks that the puts of a link arrive at the peer.

While puts are in flight, a timer checks two things. A stalled path is closed. If a slow path
holds up a put that all other paths wait for, an idle path sends a copy.
"""

from typing import TYPE_CHECKING

from qmgr_protocol.errors import ErrorCode
from qmgrd.core.context.context import Context
from qmgrd.core.link.path import LATE_MS, LinkState

if TYPE_CHECKING:
    from qmgrd.core.link.link import Link


class Watch:
    """The watch over the paths of a link, with a timer that is set while puts are in flight."""

    def __init__(self, link: "Link", context: Context) -> None:
        self._link = link
        self._context = context
        self._is_set = False

    def set(self) -> None:
        """Sets the timer if a put is in flight or a path is being opened."""
        paths = self._link.paths
        is_idle = all(p.oldest is None and p.state is not LinkState.OPENING for p in paths)
        if self._is_set or is_idle:
            return
        self._is_set = True
        wait_ms = self._context.config.link.stall_ms // 4
        if len(paths) > 1:
            wait_ms = min(wait_ms, LATE_MS // 2)
        self._context.timers.at(self._context.now.ms + max(wait_ms, 1), self._look)

    def _look(self) -> None:
        self._is_set = False
        link = self._link
        for path in list(link.paths):
            if path.is_stalled():
                path.stalled()
                text = f"path {path.index} of link {link.name} is stalled"
                self._context.event("link stalled", link=link.name, path=path.index)
                path.close(ErrorCode.LINK_STALLED, text)
                link.lost(path, f"{path.address}: the path is stalled")
        self._send_what_is_late()
        self.set()

    def _send_what_is_late(self) -> None:
        """Sends the put that all other paths wait for over an idle path, if its own path is
        silent.
        """
        link, due_ms = self._link, self._link.pump.due_ms
        idle = [path for path in link.up_paths if path.oldest is None]
        if due_ms is None or not idle or link.queue.bounds.get_inhibit:
            return
        gap = link.outbox.commit_id + 1
        carried = [(path, path.flight.with_id(gap)) for path in link.paths]
        late = [(path, put) for path, put in carried if put is not None]
        for path, _ in late:
            if path.is_late(due_ms):
                path.ask()
        if late and all(path.is_silent and path.is_late(due_ms) for path, _ in late):
            link.pump.send_over(idle[0], late[0][1].ids)
