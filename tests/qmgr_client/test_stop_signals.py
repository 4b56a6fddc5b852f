"""Tests that the first stop signal calls a function, and the next has its previous effect."""

import os
import signal
import threading

import pytest

from qmgr_client.stop_signals import SIGNALS, first_signal


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_stops_and_the_next_does_as_before(number: int) -> None:
    calls: list[str] = []
    before = signal.signal(number, lambda *_: calls.append("before"))
    try:
        with first_signal(lambda: calls.append("stop")):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            assert calls == ["stop", "before"]
        os.kill(os.getpid(), number)
        assert calls == ["stop", "before", "before"]
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


def test_one_signal_stops_all_blocks_that_are_open() -> None:
    calls: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: calls.append("before"))
    try:
        with first_signal(lambda: calls.append("a")):
            with first_signal(lambda: calls.append("b")):
                os.kill(os.getpid(), signal.SIGTERM)
                assert calls == ["a", "b"]
            os.kill(os.getpid(), signal.SIGTERM)
            assert calls == ["a", "b", "before"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_block_that_ends_first_leaves_the_others_their_signal() -> None:
    calls: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: calls.append("before"))
    try:
        first, second = first_signal(lambda: calls.append("a")), first_signal(lambda: None)
        first.__enter__()
        second.__enter__()
        second.__exit__(None, None, None)
        os.kill(os.getpid(), signal.SIGTERM)
        first.__exit__(None, None, None)
        assert calls == ["a"]
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
