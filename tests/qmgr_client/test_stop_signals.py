"""Signals that ask to stop: the first is told, the next one does as before."""

import os
import signal
import threading

import pytest

from qmgr_client.stop_signals import SIGNALS, first_signal


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_stops_and_the_next_does_as_before(number: int) -> None:
    told: list[str] = []
    before = signal.signal(number, lambda *_: told.append("before"))
    try:
        with first_signal(lambda: told.append("stop")):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            assert told == ["stop", "before"]
        os.kill(os.getpid(), number)
        assert told == ["stop", "before", "before"]
    finally:
        signal.signal(number, before)


def test_block_leaves_signals_as_they_were() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with first_signal(lambda: None):
        assert before != [signal.getsignal(number) for number in SIGNALS]
    assert before == [signal.getsignal(number) for number in SIGNALS]


def test_other_threads_leave_signals_alone() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    inside: list[bool] = []

    def look() -> None:
        with first_signal(lambda: None):
            inside.append(before == [signal.getsignal(number) for number in SIGNALS])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert inside == [True]
