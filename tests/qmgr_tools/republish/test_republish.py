"""Tests of qmctl republish ls and show against a real daemon."""

import pytest

from qmgr_tools.republish.republish import publications
from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_list_has_each_publication_once_with_its_list(
    qm: Qmctl, queue: str, topic: str, parked: list[str]
) -> None:
    """C9, C24: Each publication has one row with its UID, topic and list of subscribers."""
    where = ["--where", f"topic = '{topic}'"]
    rows = qm("republish", "ls", *where, "-o", "json").json
    assert [(row["uid"], row["subscribers"], row["first"]) for row in rows] == [
        (parked[0], 2, [f"{queue}:a", f"{queue}:b"]),
        (parked[1], 1, [f"{queue}:a"]),
    ]
    assert (rows[0]["topic"], rows[0]["reason"], rows[0]["body_bytes"]) == (topic, "no-amount", 3)
    help_ = qm("republish", "ls", "--help").out
    assert [key for key in rows[0] if key not in help_] == []
    head, *lines = qm("republish", "ls", *where).out.splitlines()
    assert head == "UID\tTOPIC\tAGE\tSIZE\tSUBSCRIBERS\tFIRST OF THEM\tAWAITED\tREASON"
    assert [line.split("\t")[4:] for line in lines] == [
        ["2", f"{queue}:a, {queue}:b", "0", "no-amount"],
        ["1", f"{queue}:a", "0", "no-amount"],
    ]
    (row,) = qm("republish", "ls", "--subscription", f"{queue}:b", "-o", "json").json
    assert row["first"] == [f"{queue}:b"]
    cut = qm("republish", "ls", *where, "--limit", "1", "--columns", "uid")
    assert cut.out == f"UID\n{parked[0]}\n"
    assert cut.err == "only the first 1 are shown; to show more: --limit\n"


def test_show_has_what_each_subscriber_said(
    qm: Qmctl, queue: str, topic: str, parked: list[str]
) -> None:
    """C24: The command shows the list and the counters of one publication."""
    found = qm("republish", "show", parked[0], "-o", "json").json
    assert (found["topic"], found["body"], found["body_base64"]) == (topic, "one", None)
    first = found["subscribers"][0]
    assert (first["subscription"], first["failed"], first["delivered"]) == (f"{queue}:a", 1, 1)
    assert (first["code"], first["republished"]) == ("REDELIVERY_LIMIT_EXCEEDED", 0)
    (attempt,) = first["attempts"]
    assert (attempt["client"], attempt["text"]) == ("billing", "the amount is missing")
    help_ = qm("republish", "show", "--help").out
    assert [key for key in (*found, *first, *attempt) if key not in help_] == []
    shown = qm("republish", "show", parked[0]).out
    assert "subscribers\t2\n" in shown
    assert f"\n{queue}:b\t" in shown
    assert "\tno-amount\tbilling\tthe amount is missing\n" in shown
    assert shown.endswith("\none\n\n")


def test_publication_that_is_not_parked_is_not_found(qm: Qmctl, topic: str) -> None:
    uid = qm("pub", topic, "x", "-o", "json").json["uid"]
    ended = qm("republish", "show", uid)
    assert (
        ended.code,
        f"{uid} -- the publication is not parked for any selected subscription" in ended.err,
    ) == (3, True)
    assert qm("republish", "show", "QM.1").code == 3


def test_long_list_is_cut_and_the_last_reason_counts() -> None:
    rows = [
        {
            "uid": "Q.1",
            "topic": "t",
            "subscription": f"B:{n}",
            "put_us": 0,
            "bytes": 1,
            "parked_us": us,
            "reason": f"r{n}",
            "text": "",
            "awaits_return": n == 3,
        }
        for n, us in enumerate((5, 9, 7, 8))
    ]
    (found,) = publications(rows)
    assert (found["subscribers"], found["first"]) == (4, ["B:0", "B:1", "B:2"])
    assert (found["awaited"], found["reason"]) == (1, "r1")
