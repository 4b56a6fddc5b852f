"""The signals by which a service manager, or Ctrl-C, asks a program to end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_stops: list[Callable[[], object]] = []  # of all blocks that are open
_before: dict[int, Any] = {}  # the handlers that these replace


@contextmanager
def first_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Call *stop* at the first SIGTERM or SIGINT inside the block; the next one does as before.

    Several blocks may be open at once: the signal stops all of them. *stop* is called in the main
    thread, between any two steps of it: it may wait for nothing. Only the main thread may handle
    signals: in another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _stops:
        _before.update({number: signal.getsignal(number) for number in SIGNALS})
        for number in SIGNALS:
            signal.signal(number, _on_signal)
    _stops.append(stop)
    try:
        yield
    finally:
        if stop in _stops:  # Else a signal came.
            _stops.remove(stop)
        if not _stops:
            _restore()


def _on_signal(number: int, frame: object) -> None:
    stops = _stops[:]
    _stops.clear()
    _restore()
    for stop in stops:
        stop()


def _restore() -> None:
    while _before:
        number, handler = _before.popitem()
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
