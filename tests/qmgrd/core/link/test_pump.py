"""Tests that a link sends over its paths, and sends again what a path or the peer has lost."""

from itertools import pairwise

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.lines import Lines

SIZE = 16 * 1024  # bytes of a message; a new path may send four messages


@pytest.fixture
def lines(app: Client) -> Lines:
    return Lines(app.manager)


def wait(lines: Lines, ms: int) -> None:
    for _ in range(ms // 100):
        lines.turn(100)


def test_received_but_discarded_message_is_sent_again(lines: Lines) -> None:
    """A peer may hold a message only in memory, and discard the message after a refusal."""
    one, two = lines.up()
    lines.put(8, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    one.commit(4)
    two.say(m.Committed(1, 4, taken=4))
    assert sorted(one.ids() + two.ids()) == [5, 6, 7, 8]


def test_message_discarded_after_a_reset_of_the_cursor_is_sent_again(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    one.hang_up()
    two.say(m.Committed(1, 0, taken=4))
    assert two.ids() == [1, 2, 3, 4, 5, 6, 7, 8], "the peer received the others and lost them"


def test_peer_that_discards_everything_gets_it_less_and_less_often(app: Client) -> None:
    lines = Lines(app.manager, connections=1)
    (line,) = lines.up()
    lines.put(40)
    at = []
    for _ in range(600):
        if line.ids():
            at.append(lines.now_ms)
        line.commit(0)
        lines.turn(10)
    waits = [after - before for before, after in pairwise(at)]
    assert waits[0] <= 10, "a message may be discarded once without a delay"
    assert [round(wait, -2) for wait in waits[1:]] == [100, 200, 400, 800, 1_600]
    line.commit(2)
    wait(lines, 5_000)
    assert line.ids() == [*range(3, 41)], "two stored messages are too few to end the delays"
    line.commit(20)
    assert line.ids() == [*range(21, 41)]
    line.commit(40)
    lines.put(1)
    assert line.ids() == [41]


def test_peer_that_blocks_the_link_without_a_wait_has_to_wait(app: Client) -> None:
    lines = Lines(app.manager, connections=1)
    (line,) = lines.up()
    lines.put(40)
    sent = 0
    for _ in range(100):
        if line.ids():
            sent += 1
            line.say(m.Blocked(1, 1, ErrorCode.QUEUE_FULL, 0, "full", taken=line.taken))
        lines.turn(10)
    assert 9 <= sent <= 11, "once in each 100 ms"


def test_link_that_was_deleted_sends_nothing_again(app: Client) -> None:
    lines = Lines(app.manager, connections=1)
    (line,) = lines.up()
    lines.put(40)
    for _ in range(3):
        line.ids()
        line.commit(0)
    lines.app.ask(m.QueueDelete, "F@NYC")
    lines.app.ask(m.LinkDelete, "NYC", True)
    wait(lines, 1_000)
    lines.manager.rest()
    assert not lines.manager.turns.has_work


def test_late_put_goes_over_the_idle_path_not_over_its_own_again(lines: Lines) -> None:
    one, two = lines.up()
    for _ in range(4):  # The first path has proved to be fast, and may send more.
        lines.put(4, SIZE)
        one.ids(), two.ids()
        one.commit(lines.link.outbox.sent_id)
    sent_id = lines.link.outbox.sent_id
    lines.put(2)
    assert (one.ids(), two.ids()) == ([sent_id + 1, sent_id + 2], [])
    wait(lines, 2_000)
    assert (one.ids(), two.ids()) == ([], [sent_id + 1, sent_id + 2])
    wait(lines, 5_000)
    assert (one.ids(), two.ids()) == ([], []), "sent once"


def test_path_that_is_late_is_given_nothing_new(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(2, SIZE)
    assert one.ids() == [1, 2]
    wait(lines, 1_000)
    lines.put(2, SIZE)
    assert (one.ids(), two.ids()) == ([], [3, 4])


def test_bytes_on_a_late_path_do_not_hold_up_the_others() -> None:
    lines = Lines(Manager(link={"window_bytes": "1 MiB"}), connections=3)
    one, two, three = lines.up()
    lines.put(1, 600_000)
    lines.put(1, 600_000)
    lines.put(10, 1_000)
    assert (one.ids(), two.ids(), three.ids()) == ([1], [2], [])
    wait(lines, 1_000)
    assert three.ids() != []


def test_copy_is_not_made_while_the_peer_answers(lines: Lines) -> None:
    """The peer may report rarely, so the link asks it before sending a second copy."""
    one, two = lines.up()
    for number in range(1, 6):
        lines.put(1)
        carrier = one if one.ids() else two
        carrier.ids()
        wait(lines, 700)
        if m.CommitAsk(1) in carrier.sent:
            carrier.sent.clear()
        carrier.taken = max(
            carrier.taken,
            sum(p.flight.sent for p in lines.link.paths if p.index == lines.lines.index(carrier)),
        )
        carrier.commit(number)
        wait(lines, 1_000)
    assert lines.row["resent"] == 0


def test_delay_on_all_paths_reduces_no_budget(lines: Lines) -> None:
    one, two = lines.up()
    for wait_ms in (0, 0, 2_000, 2_000, 2_000):
        lines.put(200, SIZE)
        lines.turn(wait_ms)
        for line in (one, two):
            line.ids()
        for line in (one, two):
            line.say(m.Committed(1, 0, taken=line.taken))
        lines.link.outbox.held.update(range(1, lines.link.outbox.sent_id + 1))
    budgets = [path.budget for path in lines.link.paths]
    assert min(budgets) > 256 * 1024


def test_ordered_link_keeps_to_its_window_with_what_the_peer_has_in_line() -> None:
    lines = Lines(Manager(link={"window_bytes": "256 KiB"}), ordered=True)
    one, two = lines.up()
    lines.put(100, SIZE)
    assert one.ids() == [1, 2, 3, 4]
    there = two.ids()
    for _ in range(10):
        two.say(m.Committed(1, 0, taken=two.taken))
        there += two.ids()
    assert len(there) + 4 <= 16
    wait(lines, 2_000)
    assert two.ids() == [1, 2, 3, 4], "the new path also sends the missing message"


def test_line_that_is_full_at_the_peer_does_not_block_the_link() -> None:
    lines = Lines(Manager(), ordered=True)
    one, two = lines.up()
    lines.put(8, SIZE)
    one.ids(), two.ids()
    two.say(m.Blocked(1, 5, ErrorCode.LINK_LINE_FULL, 100, "full", taken=4))
    assert lines.row["state"] == "up"
    one.commit(4)
    assert sorted(one.ids() + two.ids()) == [5, 6, 7, 8]


def test_puts_are_short_where_they_have_stalled() -> None:
    lines = Lines(Manager(link={"stall_ms": "1 s"}), connections=1)
    (one,) = lines.up()
    lines.put(20, 100_000)
    longest = []
    for _ in range(3):
        puts = [x for x in one.sent if type(x) is m.Put]
        longest.append(max(sum(map(len, put.records)) for put in puts))
        while not lines.dials:
            lines.turn(50)
        (one,) = lines.up()
    assert longest[0] > 4 * longest[1] > 0
    assert longest[2] <= longest[1]


def test_patience_is_kept_while_it_is_needed() -> None:
    """Each put takes longer than the first time limit. The link closes the connection only once."""
    lines = Lines(Manager(link={"stall_ms": "1 s"}), connections=1)
    lines.put(1)
    for number in range(2, 8):
        if lines.dials:
            lines.up()
        line = lines.lines[-1]
        for _ in range(15):
            if line.goaway is None:
                lines.turn(100)
        if line.goaway is None:
            line.ids()
            line.commit(lines.link.outbox.sent_id)
        while line.goaway is not None and not lines.dials:
            lines.turn(50)
        lines.put(1)
        assert number
    assert lines.row["paths"][0]["stalls"] == 1


def test_window_of_an_ordered_link_is_freed_by_any_commit() -> None:
    """Seed 959: After a restart of the peer, the commit arrives in the answer to an opening."""
    lines = Lines(Manager(link={"window_bytes": "64 KiB"}), connections=1, ordered=True)
    (one,) = lines.up()
    lines.put(8, SIZE)
    assert one.ids() == [1, 2, 3, 4]
    uid = lines.link.outbox.uid_at(4)
    one.hang_up()
    lines.turn(1_000)
    (again,) = lines.up(commit_id=4, uid=uid)
    assert again.ids() == [5, 6, 7, 8]


def test_window_of_an_ordered_link_is_free_again_for_what_was_lost() -> None:
    """Seed 979: The peer has lost all messages in flight."""
    lines = Lines(Manager(link={"window_bytes": "64 KiB"}), connections=1, ordered=True)
    (one,) = lines.up()
    lines.put(8, SIZE)
    assert one.ids() == [1, 2, 3, 4]
    one.hang_up()
    lines.turn(1_000)
    (again,) = lines.up()
    assert again.ids() == [1, 2, 3, 4]


def test_peer_that_always_closes_is_dialled_with_backoff() -> None:
    lines = Lines(Manager(), connections=1)
    lines.put(1)
    waits = []
    for _ in range(5):
        (line,) = lines.up()
        assert line.ids() == [1]
        line.hang_up()
        before_ms = lines.now_ms
        while not lines.dials:
            lines.turn(10)
        waits.append(lines.now_ms - before_ms)
    assert waits[4] > 4 * waits[0]


@pytest.mark.parametrize("held", [[[2, 1]], [[5, 2], [6, 1]], [[7, 1], [5, 1]]])
def test_runs_that_do_not_ascend_from_the_commit_id_break_the_protocol(
    lines: Lines, held: list[list[int]]
) -> None:
    one, _ = lines.up()
    lines.put(8)
    one.ids()
    one.commit(2, *held)
    assert one.goaway is not None
    assert one.goaway.code == ErrorCode.FIELD_INVALID
