"""Tests that a dry run shows the effect of republishing and changes nothing."""

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.republish.preview import wait
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def test_dry_run_says_who_would_get_what(
    qm: Qmctl, daemon: Daemon, queue: str, topic: str, parked: list[str]
) -> None:
    """C11: Only the subscribers on the list would receive the publications."""
    words = ["republish", "send", "--where", f"topic = '{topic}'", "--dry-run"]
    with connect(daemon.unix) as client, client.consume(f"{queue}:a"):
        found = qm(*words, "-o", "json").json
        assert (found["dry_run"], found["messages"], found["awaited"], found["stay"]) == (
            True,
            2,
            1,
            0,
        )
        assert found["subscriptions"] == [
            {
                "subscription": f"{queue}:a",
                "messages": 2,
                "bytes": 6,
                "outcome": "now",
                "first": parked,
            },
            {
                "subscription": f"{queue}:b",
                "messages": 1,
                "bytes": 3,
                "outcome": "on return",
                "first": parked[:1],
            },
        ]
        first, head, *lines = qm(*words).out.splitlines()
        assert first == (
            "would deliver 2 messages; 1 message would wait until its subscriber returns; nothing "
            "changed"
        )
        assert head == "SUBSCRIPTION\tMESSAGES\tBYTES\tDELIVERED\tFIRST OF THEM"
        assert [line.split("\t")[3] for line in lines] == ["now", "on return"]
        assert qm(*words, "--max", "1", "-o", "json").json["messages"] == 1
        assert qm("sub", "show", f"{queue}:a", "-o", "json").json["parked"] == 2


def test_dry_run_of_a_drop_waits_for_nobody(qm: Qmctl, queue: str, parked: list[str]) -> None:
    words = ["republish", "delete", parked[0], "--to", f"{queue}:a", "--to", f"{queue}:b"]
    found = qm(*words, "--dry-run", "-o", "json").json
    assert (found["messages"], [sorted(row) for row in found["subscriptions"]]) == (
        2,
        [["bytes", "first", "messages", "subscription"]] * 2,
    )
    assert qm(*words, "--dry-run").out.startswith("would delete 2 messages; nothing changed\n")
    assert qm("republish", "delete", "QM.1", "--dry-run").code == 3


def test_one_and_several_wait_in_words() -> None:
    assert wait(1, "waits", "wait") == "1 message waits until its subscriber returns"
    assert wait(2, "waits", "wait") == "2 messages wait until their subscribers return"
