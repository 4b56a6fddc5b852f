"""Tests of the error of a get that received no message, against a real daemon."""

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.cli.failure import Exit
from qmgr_tools.message import empty_get
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def why(qm: Qmctl, queue: str, *words: str) -> tuple[str, str]:
    """Returns the reason and the remedy that a get without a message reports."""
    ended = qm("get", queue, *words)
    assert (ended.code, ended.out) == (7, "")
    what, why, remedy = ended.err.rstrip("\n").split(" -- ")
    assert what == f"error: got no message from {queue}"
    return why, remedy


def test_open_breaker_is_named_and_for_how_long(qm: Qmctl, queue: str) -> None:
    words = ("--breaker-percent", "50", "--breaker-messages-min", "1", "--breaker-pause", "1h")
    qm("queue", "alter", queue, *words)
    qm("put", queue, "x")
    assert qm("get", queue, "--release").code == 0
    said, remedy = why(qm, queue)
    assert said == "its circuit breaker is open: delivery pauses for 1 h after too many failures"
    assert remedy.endswith(f"see: qmctl queue show {queue}")
    qm("queue", "create", f"{queue}.ALIAS", "--alias-of", queue)
    assert why(qm, f"{queue}.ALIAS")[0] == said
    assert qm("queue", "delete", f"{queue}.ALIAS").code == 0


def test_probing_breaker_is_named(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    pause = ("--breaker-pause", "100ms")
    qm("queue", "alter", queue, "--breaker-percent", "50", "--breaker-messages-min", "1", *pause)
    qm("put", queue, "x")
    assert qm("get", queue, "--release").code == 0
    with connect(daemon.unix) as client:
        assert client.get(queue, wait_ms=60_000, lease_ms=60_000) is not None
        assert why(qm, queue)[0].startswith("its circuit breaker is probing: ")


def test_messages_that_are_not_to_be_had_are_counted(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    qm("put", queue, "leased")
    qm("put", queue, "later", "--delay", "1h")
    with connect(daemon.unix) as client:
        assert client.get(queue, lease_ms=60_000) is not None
        said, remedy = why(qm, queue)
    assert said == "no message was ready right now: 1 delayed, 1 leased"
    assert remedy == f"wait longer with --wait; see: qmctl browse {queue} --delayed"


def test_selection_that_nothing_fits_is_named(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    said = why(qm, queue, "--where", "size = 5")
    assert said == ("the selection matches none of 1 ready message", f"see: qmctl browse {queue}")


def test_inhibited_queue_is_named(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    """The error names the inhibit and, for a queue that does not exist, the wait."""
    qm("queue", "alter", queue, "--get-inhibit")
    with connect(daemon.unix) as client:
        told = empty_get.failure(client, queue, 0, {})
        gone = empty_get.failure(client, "NOWHERE", 5_000, {"where": "size = 1"})
    assert "gets are inhibited" in str(told)
    assert "no message was ready within 5 s" in str(gone)
    assert (told.exit_code, gone.exit_code) == (Exit.EMPTY, Exit.EMPTY)


def put(qm: Qmctl, queue: str, group: str, number: int) -> None:
    assert qm("put", queue, "x", "--group", group, "--number", str(number)).code == 0


@pytest.mark.parametrize("order", ["logical", "physical"])
def test_paused_group_is_named_with_how_to_resume_it(qm: Qmctl, queue: str, order: str) -> None:
    put(qm, queue, "two words", 1)
    qm("group", "pause", queue, "two words")
    assert why(qm, queue, "--order", order, "--group", "two words") == (
        "group two words is paused",
        f"resume it: qmctl group resume {queue} 'two words'",
    )


def test_group_of_an_inhibited_queue_is_not_to_blame(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    put(qm, queue, "N1", 1)
    qm("group", "pause", queue, "N1")
    qm("queue", "alter", queue, "--get-inhibit")
    with connect(daemon.unix) as client:
        told = empty_get.failure(client, queue, 0, {"group_id": b"N1".ljust(24, b"\0")})
    assert "gets are inhibited" in str(told)


@pytest.mark.parametrize("order", ["logical", "physical"])
def test_parked_group_is_named_with_what_failed(
    qm: Qmctl, queue: str, order: str, daemon: Daemon
) -> None:
    for number in (1, 2):
        put(qm, queue, "N1", number)
    with connect(daemon.unix) as client:
        message = client.get(queue)
        assert message is not None
        client.reject(message)
    assert why(qm, queue, "--order", order, "--group", "N1") == (
        "group N1 is parked: message 1 failed (MESSAGE_REJECTED)",
        f"fix the cause, then: qmctl group resume {queue} N1; or skip the message: qmctl "
        f"group skip {queue} N1",
    )


def test_group_that_waits_and_one_that_is_held_are_told(
    qm: Qmctl, queue: str, daemon: Daemon
) -> None:
    put(qm, queue, "N1", 2)
    see = f"see: qmctl group show {queue} N1"
    words = ("--order", "logical", "--group", "N1")
    assert why(qm, queue, *words) == ("group N1 waits for number 1", see)
    none = why(qm, queue, "--order", "logical")
    assert none[0] == (
        "1 message cannot be delivered: their groups wait or are assigned to other consumers"
    )
    put(qm, queue, "N1", 1)
    with connect(daemon.unix, name="gate") as client, client.reader(queue) as reader:
        assert reader.get() is not None
        said = why(qm, queue, *words)
    assert said[0].startswith("group N1 is assigned to connection ")
    assert (said[0].endswith(" gate"), said[1]) == (True, see)
    assert why(qm, queue, "--group", "N2")[0] == "the selection matches none of 2 ready messages"
