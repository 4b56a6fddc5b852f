"""The signals by which a service manager, or Ctrl-C, asks a program to end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def first_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Have the first SIGTERM or SIGINT inside the block call *stop*; the next one does as before.

    *stop* is called in the main thread, between any two steps of it: it may wait for nothing. Only
    the main thread may handle signals: in another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def on_signal(number: int, frame: object) -> None:
        restore()
        stop()

    for number in SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
