"""Tests of the description of a link that is shown to operators."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.harness import Client
from tests.qmgrd.core.lines import Lines


def test_progress_is_reported_to_the_link_and_each_path(app: Client) -> None:
    lines = Lines(app.manager)
    one, two = lines.up()
    lines.put(8, 16 * 1024)
    one.ids(), two.ids()
    lines.turn(100)
    two.commit(0, [5, 4])
    row = lines.row
    assert (row["waiting"], row["in_flight"], row["commit_id"], row["held"]) == (8, 8, 0, 4)
    assert (row["connections"], row["connections_up"], row["ordered"]) == (2, 2, False)
    assert row["oldest_ms"] == 100
    first, second = row["paths"]
    assert (first["in_flight"], first["landed"], first["oldest_ms"]) == (4, 0, 100)
    assert (second["in_flight"], second["landed"], second["oldest_ms"]) == (0, 4, None)
    assert first["in_flight_bytes"] > 4 * 16 * 1024


def test_blocked_link_reports_the_cause_and_the_next_attempt(app: Client) -> None:
    lines = Lines(app.manager, connections=1)
    (one,) = lines.up()
    lines.put(2)
    one.ids()
    one.say(m.Blocked(1, 1, ErrorCode.QUEUE_FULL, 500, "full", taken=2))
    row = lines.row
    assert (row["state"], row["retry_ms"], row["blocked_queue"]) == ("blocked", 500, "F")
    assert (row["blocked_behind"], row["down_ms"], row["blocked_ms"]) == (1, None, 0)


def test_link_blocked_repeatedly_reports_the_first_block(app: Client) -> None:
    """The time starts at the first block. After a commit, another message blocks the link."""
    lines = Lines(app.manager, connections=1)
    (one,) = lines.up()
    lines.put(3)
    for taken in (3, 6):
        one.ids()
        one.say(m.Blocked(1, 1, ErrorCode.QUEUE_FULL, 500, "full", taken=taken))
        lines.turn(200)
        assert lines.row["state"] == "blocked"
        lines.turn(300)
    assert (lines.row["state"], lines.row["blocked_ms"]) == ("up", None)
    one.ids()
    one.say(m.Blocked(1, 1, ErrorCode.QUEUE_FULL, 500, "full", taken=9))
    assert lines.row["blocked_ms"] == 1_000
    lines.turn(500)
    one.ids()
    one.commit(1)
    one.say(m.Blocked(1, 2, ErrorCode.QUEUE_FULL, 500, "full", taken=12))
    assert lines.row["blocked_ms"] == 0
    lines.turn(300)
    # This commit is reported after the block, but covers a message before the blocked one.
    one.commit(1)
    assert lines.row["blocked_ms"] == 300


def test_block_by_another_message_restarts_the_time(app: Client) -> None:
    """The commit between the two blocks arrives after the first block, or with a new path."""
    lines = Lines(app.manager, connections=1)
    (one,) = lines.up()
    lines.put(3)
    one.ids()
    one.say(m.Blocked(1, 1, ErrorCode.QUEUE_FULL, 5_000, "full", taken=3))
    lines.turn(400)
    one.commit(1)
    assert lines.row["blocked_ms"] == 0
    one.hang_up()
    lines.turn(10_000)
    (again,) = lines.up(2, uid=lines.link.outbox.uid_at(2))
    again.ids()
    again.say(m.Blocked(1, 3, ErrorCode.QUEUE_FULL, 5_000, "full", taken=1))
    assert lines.row["blocked_ms"] == 0


def test_link_that_is_down_reports_since_when_and_the_next_dial(app: Client) -> None:
    lines = Lines(app.manager, connections=1)
    (one,) = lines.up()
    one.hang_up()
    lines.turn(10)
    row = lines.row
    assert (row["state"], row["down_ms"], row["error"]) == ("waiting", 10, "h:1: cut")
    assert 0 < row["redial_ms"] <= 100
