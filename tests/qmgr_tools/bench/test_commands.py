import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process
SHORT = ["--count", "300", "--size", "64"]


@pytest.mark.parametrize("mode", ["put", "get", "putget"])
def test_bench_measures_and_leaves_nothing(mode: str, qm: Qmctl) -> None:
    ended = qm("bench", mode, *SHORT, "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    row = ended.json
    assert (row["mode"], row["messages"], row["size_bytes"]) == (mode, 300, 64)
    assert row["messages_per_second"] > 0
    assert (row["put_p50_ms"] is None) == (mode == "get")
    assert (row["ack_p99_ms"] is None) == (mode == "put")
    assert (row["end_to_end_p50_ms"] is None) == (mode != "putget")
    said = qm("bench", mode, "--help").out
    assert [key for key in row if key not in said] == []
    assert qm("queue", "show", "qmctl.bench").code == 3


def test_bench_in_words(qm: Qmctl) -> None:
    ended = qm("bench", "putget", *SHORT, "--producers", "2", "--inflight", "8", "--prefetch", "9",
               "--one-a-frame", "--same", "--priority", "9")  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    facts = dict(line.split("\t") for line in ended.out.splitlines())
    assert facts["work"] == "64 B, 2 producers with 8 in flight, 1 consumer with 9 ahead"
    assert facts["messages"] == "300"
    assert facts["put, until on disk"].startswith("p50 ")
    assert "put, until got" not in facts


def test_time_ends_a_bench(qm: Qmctl) -> None:
    assert qm("bench", "put", "--seconds", "100 ms", "-o", "json").json["messages"] > 0


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["put", "--inflight", "5000"], 2, "--inflight 5000 is too many"),
        (["put", "--inflight", "4096", "--size", "1 MiB"], 2, "a window of 16777216 bytes"),
        (["put", "--size", "much"], 2, "invalid value for '--size'"),
        (["put", "--queue", "a/b"], 2, "NAME_INVALID"),
        (["put", "--size", "5 MiB", "--inflight", "1"], 1, "at most 4194304"),
    ],
)
def test_what_cannot_be_is_explained(words: list[str], code: int, error: str, qm: Qmctl) -> None:
    ended = qm("bench", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err
    assert ended.err.count("\n") == 1


def test_no_daemon_is_told(qmctl: Qmctl) -> None:
    ended = qmctl("-c", "unix:/nowhere", "bench", "put")
    assert ended.code == 5
    assert ended.err.startswith("error: cannot measure put -- cannot connect to unix:/nowhere: No")
