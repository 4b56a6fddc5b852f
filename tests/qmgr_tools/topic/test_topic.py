"""Tests of qmctl topic ls, show, set and delete against a real daemon."""

import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_what_is_set_holds_for_all_below(qm: Qmctl, queue: str, topic: str) -> None:
    ended = qm("topic", "set", queue, "--redelivery-limit", "3", "--republish", "healthy")
    told = f"set topic {queue}: redelivery limit 5 -> 3; republish manual -> healthy\n"
    assert (ended.code, ended.out) == (0, told)
    row = qm("topic", "show", topic, "-o", "json").json
    assert row == {
        "topic": topic,
        "given": [],
        "redelivery_limit": 3,
        "republish": "healthy",
        "republish_interval_ms": 3_600_000,
        "put_inhibit": False,
        "retained": False,
        "subscriptions": 2,
        "first_subscriptions": [f"{queue}:a", f"{queue}:b"],
    }
    help_ = qm("topic", "show", "--help").out
    assert [key for key in row if key not in help_] == []
    # Options that are not given stay unchanged, and "default" resets an option.
    words = ["topic", "set", queue, "--republish-interval", "2h", "--redelivery-limit", "default"]
    assert qm(*words, "-o", "json").json["changed"] == {
        "redelivery_limit": [3, 5],
        "republish_interval_ms": [3_600_000, 7_200_000],
    }
    assert qm(*words).out == f"set topic {queue}: the effective attributes are unchanged\n"
    listed = qm("topic", "ls", "--where", f"topic={queue}", "--columns", "republish,given").out
    assert listed == "REPUBLISH\tGIVEN\nhealthy\trepublish, republish interval\n"
    assert "republish interval\t2 h\n" in qm("topic", "show", topic).out
    assert qm("topic", "delete", queue).out == f"deleted the attributes of topic {queue}\n"
    assert qm("topic", "delete", queue).code == 3


def test_retained_is_listed_and_forgotten(qm: Qmctl, queue: str) -> None:
    qm("pub", queue, "x", "--retain")
    (row,) = qm("topic", "ls", "--where", f"topic={queue}", "-o", "json").json
    assert row["retained"] is True
    ended = qm("topic", "delete", queue, "--retained", "-o", "json").json
    assert ended == {"topic": queue, "retained": True}
    assert qm("topic", "delete", queue, "--retained").code == 3


def test_publishing_can_be_inhibited(qm: Qmctl, queue: str) -> None:
    qm("topic", "set", queue, "--put-inhibit")
    ended = qm("pub", f"{queue}/x", "x")
    assert (ended.code, "PUT_INHIBITED" in ended.err) == (6, True)
    qm("topic", "set", queue, "--no-put-inhibit")
    assert qm("pub", f"{queue}/x", "x").code == 0
    qm("topic", "delete", queue)


@pytest.mark.parametrize(
    "words", [["set", "a"], ["set", "a/+", "--put-inhibit"], ["set", "a", "--republish", "never"]]
)
def test_invalid_attribute_is_refused(words: list[str], qm: Qmctl) -> None:
    ended = qm("topic", *words)
    assert (ended.code, ended.out) == (2, "")
