"""Tests of qmctl pub against a real daemon."""

import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_publication_reaches_all_who_subscribed(qm: Qmctl, queue: str, topic: str) -> None:
    """C1: All copies of a publication have the same UID. Each publication has a new UID."""
    ended = qm("pub", topic, "late", "--header", "delay:=20", "--priority", "7")
    words, _, uid = ended.out.removesuffix(", for 2 subscriptions\n").rpartition(" ")
    assert (ended.code, words) == (0, f"published to {topic}:")
    for name in ("a", "b"):
        (row,) = qm("browse", f"{queue}:{name}", "-o", "json").json
        assert (row["uid"], row["body"], row["headers"]) == (uid, "late", {"delay": 20})
        assert row["priority"] == 7
    again = qm("pub", f"/{topic}", "late", "-o", "json").json
    assert (again["topic"], again["subscriptions"], again["messages"]) == (topic, 2, 1)
    assert again["uid"] != uid


def test_lines_are_publications(qm: Qmctl, queue: str, topic: str) -> None:
    ended = qm("pub", topic, "--lines", stdin=b"a\nb\n")
    assert ended.out == f"published to {topic}: 2 messages, each for 2 subscriptions\n"
    assert qm("get", f"{queue}:a", "--all", "--body-only").out == "a\nb\n"
    row = qm("pub", topic, "--lines", "-o", "json", stdin=b"c\n").json
    assert (row["messages"], row["subscriptions"], row["bytes"], row["uid"]) == (1, 2, 1, None)


def test_topic_retains_one_for_those_to_come(qm: Qmctl, queue: str) -> None:
    for body in ("old", "new"):
        assert qm("pub", f"{queue}/x", body, "--retain").out.endswith(", for 0 subscriptions\n")
    came = qm("sub", "consume", f"{queue}/+", "--count", "1", "--body-only")
    assert (came.code, came.out) == (0, "new\n")
    assert qm("topic", "delete", f"{queue}/x", "--retained").code == 0


def test_put_to_a_topic_says_for_how_many(qm: Qmctl, topic: str) -> None:
    assert qm("put", f"/{topic}", "x").out.endswith(", for 2 subscriptions\n")


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["a/+", "x"], 2, "TOPIC_INVALID"),
        (["a"], 2, "no message is given"),
        (["a", "x", "--report"], 2, "--report needs a queue for reports -- no queue is given"),
        (["a", "x", "--uid", "u"], 2, "invalid UID 'u'"),
        (["a", "x", "--last"], 2, "needs a group"),
    ],
)
def test_invalid_publication_is_refused(words: list[str], code: int, why: str, qm: Qmctl) -> None:
    ended = qm("pub", *words)
    assert (ended.code, ended.out) == (code, "")
    assert why in ended.err


def test_lines_that_are_refused_are_told(qm: Qmctl, topic: str) -> None:
    qm("topic", "set", topic, "--put-inhibit")
    ended = qm("pub", topic, "--lines", stdin=b"a\nb\n")
    assert (ended.code, ended.out) == (6, f"published to {topic}: 0 messages\n")
    assert f"cannot publish 2 of 2 messages to {topic}" in ended.err
    qm("topic", "delete", topic)
