"""Tests of the decision whether turns wait for a flush."""

from qmgrd.store.flush_time import FAST_S, SLOW_S, UNMEASURED_MAX, FlushTime


def test_slow_flush_lets_turns_go_on_until_flushes_are_fast() -> None:
    flush = FlushTime()
    for seconds, goes_on in [
        (SLOW_S, False),
        (SLOW_S * 1.5, True),
        (FAST_S * 1.5, True),
        (FAST_S, False),
        (FAST_S * 1.5, False),
    ]:
        flush.seconds = seconds
        assert flush.lets_turns_go_on() is goes_on


def test_turns_wait_for_one_of_many_flushes_to_measure_it() -> None:
    flush = FlushTime(SLOW_S * 2)
    for _ in range(UNMEASURED_MAX):
        assert flush.lets_turns_go_on()
        flush.unmeasured()
    assert not flush.lets_turns_go_on()
    flush.measured(SLOW_S * 2, 0)
    assert flush.lets_turns_go_on()


def test_average_of_fast_records_ends_the_slow_time() -> None:
    flush = FlushTime(0.02)
    assert flush.lets_turns_go_on()
    measured = 0
    while flush.lets_turns_go_on() or flush.seconds > FAST_S:
        flush.measured(0.0002, 0)
        measured += 1
    assert 20 < measured < 40


def test_size_of_a_record_is_not_part_of_its_flush() -> None:
    flush = FlushTime(0.001)
    for _ in range(100):
        flush.measured(0.001 + 0.005, 5_000_000)
    assert abs(flush.seconds - 0.001) < 1e-6
    assert flush.is_saved_by(900_000)
    assert not flush.is_saved_by(1_100_000)
