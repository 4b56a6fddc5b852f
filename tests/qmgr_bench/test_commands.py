from pathlib import Path

import pytest

from qmgr_bench.commands import bars
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process
SHORT = ["--count", "300", "--size", "64"]


@pytest.mark.parametrize("mode", ["put", "get", "putget"])
def test_bench_measures_and_leaves_nothing(mode: str, qm: Qmctl) -> None:
    ended = qm("bench", mode, *SHORT, "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    row = ended.json
    assert (row["mode"], row["messages"], row["size_bytes"]) == (mode, 300, 64)
    assert row["messages_per_second"] > 0
    assert (row["put"] is None) == (mode == "get")
    assert (row["ack"] is None) == (mode == "put")
    assert (row["end_to_end"] is None) == (mode != "putget")
    times = row["ack" if mode == "get" else "put"]
    assert times["p50_ms"] <= times["p90_ms"] <= times["p99_ms"] <= times["p99_9_ms"]
    assert times["p99_9_ms"] <= times["max_ms"]
    assert sum(messages for _, messages in times["buckets"]) == 300
    said = qm("bench", mode, "--help").out
    assert [key for key in row if key not in said] == []
    assert qm("queue", "show", "qmctl.bench").code == 3


@pytest.mark.parametrize("way", ["options", "context", "environment"])
def test_bench_logs_in_as_every_command_does(
    way: str, qmctl: Qmctl, own_daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port needs a login, so a login that is ignored fails."""
    password = tmp_path / "bench.password"
    password.write_text("a long password for the benchmark\n")
    password.chmod(0o600)
    at = ("-c", own_daemon.unix)
    for words in (
        "user create admin --role administrator --generate",
        f"user create bench --role operator --role consumer --password-file {password}",
    ):
        assert qmctl(*at, *words.split()).code == 0
    assert qmctl("bench", "put", *SHORT, "-c", own_daemon.tcp).code != 0
    login = ["--user", "bench", "--password-file", str(password)]
    where = ["-c", own_daemon.tcp]
    if way == "options":
        where += login
    elif way == "context":
        assert qmctl("context", "create", "own", own_daemon.tcp).code == 0
        assert qmctl("login", "--context", "own", *login).code == 0
        where = ["--context", "own"]
    else:
        monkeypatch.setenv("QMGR_USER", "bench")
        monkeypatch.setenv("QMGR_PASSWORD_FILE", str(password))
    for mode in ("put", "get", "putget"):
        ended = qmctl("bench", mode, *SHORT, "-o", "json", *where)
        assert (ended.code, ended.err) == (0, "")
        assert ended.json["messages"] == 300


def test_bench_in_words(qm: Qmctl) -> None:
    ended = qm(
        "bench",
        "putget",
        *SHORT,
        "--producers",
        "2",
        "--inflight",
        "8",
        "--prefetch",
        "9",
        "--consumers",
        "2",
        "--one-a-frame",
        "--same",
        "--priority",
        "9",
    )
    assert (ended.code, ended.err) == (0, "")
    facts = dict(line.split("\t") for line in ended.out.splitlines() if "\t" in line)
    assert " ms " in ended.out.partition("\nput to disk: time from, messages, share\n")[2]
    assert facts["work"] == "64 B, 2 producers with 8 in flight, 2 consumers with 9 ahead"
    assert facts["messages"] == "300"
    assert facts["put to disk"].startswith("p50 ")
    assert "put to get" not in facts


@pytest.mark.parametrize("mode", ["put", "putget"])
def test_puts_in_units_of_work_are_counted_one_by_one(mode: str, qm: Qmctl) -> None:
    words = ["--unit", "7", "--inflight", "20", "--size", "64"]
    row = qm("bench", mode, *words, "--count", "300", "-o", "json").json
    assert (row["messages"], row["unit"], row["inflight"]) == (300, 7, 14)
    assert sum(messages for _, messages in row["put"]["buckets"]) == 300
    said = qm("bench", mode, *words, "--count", "30")
    assert "1 producer with 14 in flight" in said.out
    assert ", in units of 7\n" in said.out


def test_time_ends_a_bench(qm: Qmctl) -> None:
    assert qm("bench", "put", "--duration", "100 ms", "-o", "json").json["messages"] > 0


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["put", "--inflight", "5000"], 2, "--inflight 5000 is too large"),
        (["put", "--inflight", "4096", "--size", "1 MiB"], 2, "the window of 16777216 bytes"),
        (["put", "--unit", "300"], 2, "--inflight 256 is smaller than the unit"),
        (["putget", "--unit", "2", "--rate", "5"], 2, "--unit and --rate exclude each other"),
        (
            ["put", "--unit", "2001", "--inflight", "2001"],
            1,
            "would exceed its limit of 2000 messages, with 2001",
        ),
        (["put", "--size", "much"], 2, "invalid value for '--size'"),
        (["put", "--queue", "a/b"], 2, "NAME_INVALID"),
        (["put", "--size", "5 MiB", "--inflight", "1"], 1, "exceeds the limit of 4194304 bytes"),
    ],
)
def test_invalid_request_is_explained(words: list[str], code: int, error: str, qm: Qmctl) -> None:
    ended = qm("bench", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err
    assert ended.err.count("\n") == 1


def test_no_daemon_is_reported(qmctl: Qmctl) -> None:
    ended = qmctl("-c", "unix:/nowhere", "bench", "put")
    assert ended.code == 5
    assert ended.err.startswith("error: cannot measure put -- cannot connect to unix:/nowhere: No")


def test_rate_is_kept(qm: Qmctl) -> None:
    words = ["--count", "100", "--rate", "500", "--producers", "2"]
    row = qm("bench", "put", *words, "-o", "json").json
    assert (row["messages"], row["rate"]) == (100, 500)
    assert row["seconds"] > 0.15  # The 99 intervals take 198 ms, but timers are coarse.


def test_bars_are_in_proportion_and_gaps_are_shown() -> None:
    found = list(bars([(1.0, 10), (1.1, 10), (2.5, 10), (4.0, 1)]))
    assert [line.split() for line in found] == [
        ["1", "ms", "20", "64.5%", "#" * 40],
        ["1.5", "ms", "0", "0.0%"],
        ["2", "ms", "10", "32.3%", "#" * 20],
        ["3", "ms", "0", "0.0%"],
        ["4", "ms", "1", "3.2%", "##"],
    ]
