from qmgrd.process.turn_times import TurnTimes


def of(*turns_us: float) -> TurnTimes:
    times = TurnTimes()
    for turn_us in turns_us:
        times.add(int(turn_us * 1000))
    return times


def test_turns_are_counted_below_powers_of_two() -> None:
    assert of(0.5, 1, 1.9, 2, 700, 1_023, 1_024).histogram() == [
        [1, 1],
        [2, 2],
        [4, 1],
        [1_024, 2],
        [2_048, 1],
    ]


def test_turn_of_a_month_is_in_the_last_class() -> None:
    assert of(30 * 86_400e6).histogram() == [[1 << 39, 1]]


def test_longest_is_reset_at_each_request() -> None:
    times = of(300, 50_000, 20)
    assert times.take_longest_us() == 50_000
    assert times.take_longest_us() == 0
    times.add(7_000)
    assert times.take_longest_us() == 7
    assert times.histogram() == [[8, 1], [32, 1], [512, 1], [65_536, 1]]
