"""Tests of a link with several paths: which messages each sends, and failures of a path (B25)."""

import json

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.system import EVENTS
from qmgrd.core.link.path import BUDGET_MIN_BYTES, LinkState
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.lines import Lines

SIZE = 16 * 1024  # bytes of a message; a new path may send four messages


@pytest.fixture
def lines(app: Client) -> Lines:
    return Lines(app.manager)


def events(lines: Lines) -> list[str]:
    return [json.loads(x.body)["event"] for x in lines.app.get(EVENTS, 100)]


def test_each_path_dials_another_address_first(lines: Lines) -> None:
    assert [dial.address for dial in lines.dials] == ["h:1", "h:2"]
    one, two = lines.up()
    assert (lines.row["state"], lines.row["connections_up"]) == ("up", 2)
    assert [path["address"] for path in lines.row["paths"]] == ["h:1", "h:2"]
    assert [one.dial.number, two.dial.number] == [1, 2]


def test_paths_say_which_they_are_and_whose_life_it_is(lines: Lines) -> None:
    one, two = lines.answer(), lines.answer()
    first, second = one.open(), two.open()
    assert (first.path, second.path) == (0, 1)
    assert first.life == second.life == lines.manager.turns.broker.context.life


def test_messages_are_striped_over_all_paths_B25(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6, 7, 8])


def test_link_is_up_with_its_first_path(lines: Lines) -> None:
    lines.put(3)
    one = lines.answer()
    one.open()
    assert one.ids() == [1, 2, 3]
    row = lines.row
    assert (row["state"], row["connections_up"], row["in_flight"]) == ("up", 1, 3)


def test_commit_of_one_path_covers_what_went_over_another_B25(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    one.ids(), two.ids()
    two.commit(0, [5, 4])
    assert lines.row["commit_id"] == 0
    one.commit(8)
    assert (lines.row["commit_id"], lines.row["waiting"]) == (8, 0)


def test_puts_of_a_lost_path_are_sent_over_the_other(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    two.commit(0, [5, 4])
    one.hang_up()
    assert two.ids() == [1, 2, 3, 4], "no message that path two has"
    two.commit(8)
    assert (lines.row["waiting"], lines.row["resent"]) == (0, 4)


def test_puts_in_flight_on_another_path_are_not_repeated(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(6, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6])
    one.hang_up()
    assert two.ids() == [1, 2], "as many as the path may carry"
    two.commit(2, [5, 2])
    assert two.ids() == [3, 4]


def test_path_that_comes_back_sends_nothing_twice(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(4, SIZE)
    assert one.ids() == [1, 2, 3, 4]
    two.hang_up()
    lines.turn(1_000)
    (again,) = lines.up()
    assert (again.ids(), one.ids()) == ([], [])
    lines.put(2, SIZE)
    assert again.ids() == [5, 6]


def test_old_reply_after_a_commit_on_another_path_is_no_restored_peer(lines: Lines) -> None:
    one = lines.answer()
    one.open()
    lines.put(3)
    one.ids()
    late = lines.answer()
    late.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    one.commit(3)
    late.say(m.Ok(1, [1, 0, [], None, 4096, 1, 0, b""]))
    assert (lines.row["state"], lines.row["connections_up"]) == ("up", 2)
    assert lines.row["commit_id"] == 3


def test_restart_of_a_peer_is_detected_on_any_path(lines: Lines) -> None:
    """The older paths do not send repeated messages. Each message is sent again only once."""
    one, two = lines.up()
    lines.put(8, SIZE)
    one.ids(), two.ids()
    two.commit(0, [5, 4])
    one.hang_up()
    assert two.ids() == [1, 2, 3, 4]
    lines.turn(1_000)
    again = lines.answer()
    again.open(incarnation=2)
    assert two.goaway is not None
    assert again.ids() == [1, 2, 3, 4], "path two reported these ids before the restart"


def test_slow_path_is_given_less(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    one.ids(), two.ids()
    for _ in range(6):
        one.commit(lines.link.outbox.commit_id + 4, [lines.link.outbox.commit_id + 5, 4])
        lines.put(8, SIZE)
        one.ids()
    path = lines.link.paths
    assert path[0].budget > 2 * BUDGET_MIN_BYTES
    assert path[1].budget == BUDGET_MIN_BYTES


def test_budget_shrinks_where_it_takes_long_and_grows_where_it_does_not(lines: Lines) -> None:
    one, two = lines.up()
    budgets = []
    for wait_ms in (0, 0, 5_000, 5_000, 0):
        lines.put(100, SIZE)
        two.ids()
        two.say(m.Committed(1, 0, taken=two.taken))
        lines.turn(wait_ms)
        one.ids(), two.ids()
        one.commit(lines.link.outbox.sent_id)
        two.commit(lines.link.outbox.sent_id)
        budgets.append(lines.link.paths[0].budget // BUDGET_MIN_BYTES)
    assert budgets[1] > budgets[0] > 1
    assert budgets[3] < budgets[2] < budgets[1]
    assert budgets[4] >= budgets[3]


def test_only_path_has_the_whole_window() -> None:
    lines = Lines(Manager(), connections=1)
    (one,) = lines.up()
    lines.put(20, SIZE)
    assert one.ids() == list(range(1, 21))


def test_path_on_which_nothing_moves_is_hung_up_and_its_messages_go_over_the_other(
    lines: Lines,
) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    stall_ms = lines.manager.config.link.stall_ms
    while one.goaway is None:
        two.commit(0, [5, 4])
        lines.turn(100)
        assert lines.now_ms <= 2 * stall_ms
        if not two.taken:
            two.ids()
    assert one.goaway.code == ErrorCode.LINK_STALLED
    assert lines.row["paths"][0]["stalls"] == 1
    assert "link stalled" in events(lines)


def test_slow_path_with_progress_is_kept() -> None:
    lines = Lines(Manager(), connections=1)
    (one,) = lines.up()
    lines.put(4, SIZE)
    assert one.ids() == [1, 2, 3, 4]
    for taken in (1, 2, 3, 4):
        for _ in range(9):
            lines.turn(lines.manager.config.link.stall_ms // 10)
        one.say(m.Committed(1, 0, taken=taken))
    assert one.goaway is None


@pytest.mark.parametrize(("commits", "is_soon"), [(True, True), (False, False)])
def test_peer_that_closes_without_a_commit_is_dialled_less_and_less_often(
    commits: bool, is_soon: bool
) -> None:
    """The peer may invent the number of records taken."""
    lines = Lines(Manager(), connections=1)
    lines.put(9)
    waits_ms = []
    for commit_id in range(8):
        (one,) = lines.up(commit_id * commits)
        assert one.ids()
        one.commit((commit_id + 1) * commits)
        one.hang_up()
        before_ms = lines.now_ms
        while not lines.dials:
            lines.turn(50)
        waits_ms.append(lines.now_ms - before_ms)
    assert (waits_ms[-1] < 10 * waits_ms[0]) is is_soon


def test_path_that_stalled_has_twice_as_long_the_next_time() -> None:
    lines = Lines(Manager(link={"stall_ms": "1 s"}), connections=1)
    waits = []
    lines.put(1)
    for _ in range(4):
        while not lines.dials:
            lines.turn(50)
        (one,) = lines.up()
        before_ms = lines.now_ms
        while one.goaway is None:
            lines.turn(50)
        waits.append((lines.now_ms - before_ms) // 1_000)
    assert waits == [1, 2, 4, 8]


def test_opening_that_is_never_answered_is_hung_up(lines: Lines) -> None:
    one = lines.answer()
    one.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    for _ in range(200):
        lines.turn(100)
    assert one.goaway is not None
    assert one.goaway.code == ErrorCode.LINK_STALLED


def test_peer_is_asked_before_it_is_given_up(lines: Lines) -> None:
    """A peer may report less often than the link's time limit."""
    one, _ = lines.up()
    lines.put(1)
    assert one.ids() == [1]
    for _ in range(70):
        lines.turn(100)
    assert m.CommitAsk(1) in one.sent
    assert sum(x == m.CommitAsk(1) for x in one.sent) == 1
    one.commit(1)
    assert lines.row["paths"][0]["rtt_ms"] > 0


def test_late_message_is_also_sent_over_an_idle_path(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    two.commit(0, [5, 4])
    for _ in range(7):
        lines.turn(100)
    assert m.CommitAsk(1) in one.sent, "the peer may have them without a report"
    assert two.ids() == []
    for _ in range(7):
        lines.turn(100)
    assert two.ids() == [1, 2, 3, 4]
    assert one.goaway is None
    two.commit(8)
    one.say(m.Committed(1, 8, taken=4))
    assert (lines.row["waiting"], lines.row["resent"]) == (0, 4)


def test_blocked_link_sends_again_over_any_path_what_is_not_held(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(8, SIZE)
    assert (one.ids(), two.ids()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    one.say(m.Blocked(1, 2, ErrorCode.QUEUE_FULL, 500, "full", taken=4))
    one.commit(1, [3, 2])
    assert lines.row["state"] == "blocked"
    lines.turn(500)
    assert (sorted(one.ids() + two.ids()), lines.row["state"]) == ([2], "up")


def test_link_goes_down_with_its_last_path(lines: Lines) -> None:
    one, two = lines.up()
    one.hang_up()
    assert lines.row["state"] == "up"
    two.hang_up()
    assert lines.link.state is LinkState.WAITING
    assert lines.row["error"] == "h:2: cut"


def test_stopped_link_hangs_up_on_all_paths(lines: Lines) -> None:
    one, two = lines.up()
    lines.app.send(m.LinkStop(7, "NYC"))
    lines.turn()
    assert one.goaway is not None
    assert two.goaway is not None
    assert lines.row["connections_up"] == 0


def test_number_of_connections_can_be_altered(lines: Lines) -> None:
    lines.up()
    lines.put(1)
    lines.app.send(m.LinkAlter(7, "NYC", {"connections": 3}))
    lines.turn()
    assert len(lines.up()) == 3
    assert lines.row["connections"] == 3


def test_peer_with_another_store_refuses_the_link_on_all_paths(lines: Lines) -> None:
    one, two = lines.answer(), lines.answer()
    one.open()
    two.say(m.Welcome(1, "NYC", b"X" * 16, 1))
    assert lines.row["state"] == "refused"
    assert one.goaway is not None


def test_report_of_unsent_messages_breaks_the_protocol(lines: Lines) -> None:
    one, two = lines.up()
    lines.put(1)
    one.say(m.Committed(1, 0, taken=2))
    assert one.goaway is not None
    assert one.goaway.code == ErrorCode.FIELD_INVALID
    assert two.ids() == [1]


# -- several addresses, of which one is active


def refuse(lines: Lines, goaway: m.Goaway | None) -> int:
    """Refuses the open dial, and returns the time until the next one."""
    dial, before_ms = lines.dials.pop(0), lines.now_ms
    lines.manager.turns.intake.event(0, lambda broker: broker.dial_failed(dial, "no", goaway))
    lines.turn()
    while not lines.dials:
        lines.turn(10)
    return lines.now_ms - before_ms


STANDBY = m.Goaway(ErrorCode.NOT_ACTIVE, "NYC is active at h:2")


def test_standby_is_passed_over_at_once() -> None:
    lines = Lines(Manager(), connections=1)
    assert refuse(lines, STANDBY) <= 100
    assert lines.dials[0].address == "h:2"


def test_paths_whose_peer_has_only_standbys_dial_soon() -> None:
    lines = Lines(Manager(), connections=1)
    waits_ms = [refuse(lines, STANDBY) for _ in range(20)]
    assert max(waits_ms) <= 100
    assert lines.row["attempts"] == 1


def test_standby_ends_a_long_wait() -> None:
    lines = Lines(Manager(), connections=1, addresses=["h:1", "h:2", "h:3"])
    assert max(refuse(lines, None) for _ in range(12)) > 1_000
    assert refuse(lines, STANDBY) <= 100
    assert refuse(lines, None) <= 200


def test_path_stays_at_the_address_that_works() -> None:
    lines = Lines(Manager(), connections=1)
    refuse(lines, STANDBY)
    lines.put(3)
    (one,) = lines.up()
    assert one.ids() == [1, 2, 3]
    one.commit(3)
    one.hang_up()
    while not lines.dials:
        lines.turn(10)
    assert lines.dials[0].address == "h:2"
    refuse(lines, None)
    assert lines.dials[0].address == "h:1", "the takeover"
    (again,) = lines.up(3)
    assert [path["address"] for path in lines.row["paths"]] == ["h:1"]
    lines.put(1)
    assert again.ids() == [4]


def test_all_paths_find_the_active_address(lines: Lines) -> None:
    refuse(lines, STANDBY)
    lines.turn(100)
    lines.up()
    assert [path["address"] for path in lines.row["paths"]] == ["h:2", "h:2"]


@pytest.mark.parametrize("commits", [True, False])
def test_path_that_stalled_tries_the_next_address(commits: bool) -> None:
    lines = Lines(Manager(link={"stall_ms": "1 s"}), connections=1)
    lines.put(2)
    (one,) = lines.up()
    assert one.ids() == [1, 2]
    if commits:
        one.commit(1)
    while not lines.dials:
        lines.turn(50)
    assert one.goaway is not None
    assert one.goaway.code == ErrorCode.LINK_STALLED
    assert lines.dials[0].address == "h:2"
