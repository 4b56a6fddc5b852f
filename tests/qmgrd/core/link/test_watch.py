"""Tests of a link's watch: its checks and their times. test_path.py tests the consequences."""

from tests.qmgrd.core.harness import Client
from tests.qmgrd.core.lines import Lines


def timers(lines: Lines) -> int:
    return len(lines.manager.turns.broker.context.timers._heap)


def test_link_with_nothing_on_its_way_is_not_watched(app: Client) -> None:
    lines = Lines(app.manager)
    one, two = lines.up()
    lines.turn(10_000)
    before = timers(lines)
    for _ in range(20):
        lines.turn(1_000)
    assert timers(lines) <= before
    lines.put(1)
    assert timers(lines) == before + 1
    for _ in range(5):
        lines.turn(100)
    assert timers(lines) == before + 1, "one timer for all messages"
    assert one.ids() == [1]
    one.commit(1)
    lines.turn(10_000)
    assert timers(lines) <= before
    assert two.ids() == []
