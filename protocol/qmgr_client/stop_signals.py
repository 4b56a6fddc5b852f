"""The signals that a service manager or Ctrl-C sends to stop a program."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_stops: list[Callable[[], object]] = []  # the callbacks of all open blocks
_before: dict[int, Any] = {}  # the previous handlers


@contextmanager
def first_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Calls *stop* at the first SIGTERM or SIGINT inside the block.

    After the first signal, later signals have their usual effect again.

    If several blocks are open, the signal stops all of them. *stop* runs in a signal handler of the
    main thread and must not wait. In any other thread, the block has no effect.
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
        if stop in _stops:  # A signal may have removed the callback.
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
