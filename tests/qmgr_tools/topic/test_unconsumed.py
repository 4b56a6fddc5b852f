"""Tests of qmctl topic who-lacks and what-lacks against a real daemon."""

import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_who_lacks_says_how_it_stands_with_each(
    qm: Qmctl, queue: str, topic: str, parked: list[str]
) -> None:
    """C24: For a publication, the command lists the subscriptions that have not consumed it."""
    found = qm("topic", "who-lacks", parked[1], "-o", "json").json
    assert (found["uid"], found["topic"]) == (parked[1], topic)
    states = [(row["subscription"], row["state"]) for row in found["subscriptions"]]
    assert states == [(f"{queue}:a", "parked"), (f"{queue}:b", "ready")]
    assert qm("topic", "who-lacks", parked[1]).out == (
        f"SUBSCRIPTION\tSTATE\tDELIVERED\tFAILED\n{queue}:a\tparked\t1\t1\n{queue}:b\tready\t0\t0\n"
    )
    assert qm("topic", "who-lacks", "QM.1").code == 3
    assert qm("topic", "who-lacks", "none").code == 2


def test_what_lacks_has_all_that_is_not_consumed(
    qm: Qmctl, queue: str, topic: str, parked: list[str]
) -> None:
    """C24: For a subscription, the command lists the publications it has not consumed."""
    name = f"{queue}:b"
    qm("sub", "alter", name, "--redelivery-limit", "3", "--retry-initial", "1h")
    qm("get", name, "--release")
    new = qm("pub", topic, "new", "-o", "json").json["uid"]
    rows = qm("topic", "what-lacks", name, "-o", "json").json
    assert [(row["uid"], row["state"], row["reason"]) for row in rows] == [
        (new, "ready", ""),
        (parked[1], "delayed", ""),
        (parked[0], "parked", "no-amount"),
    ]
    help_ = qm("topic", "what-lacks", "--help").out
    assert [key for key in rows[0] if key not in help_] == []
    cut = qm("topic", "what-lacks", name, "--limit", "2", "--columns", "state")
    assert cut.out == "STATE\nready\ndelayed\n"
    assert cut.err == "only the first 2 are shown; to show more: --limit\n"
    assert qm("topic", "what-lacks", "B:none").code == 3


def test_publication_that_nobody_lacks_may_be_retained(qm: Qmctl, queue: str) -> None:
    uid = qm("pub", queue, "x", "--retain", "-o", "json").json["uid"]
    assert qm("topic", "who-lacks", uid).out.startswith("no subscription lacks ")
    qm("topic", "delete", queue, "--retained")
