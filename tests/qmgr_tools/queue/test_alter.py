import pytest

from tests.qmgr_tools.conftest import Daemon, Ended, Qmctl

pytestmark = pytest.mark.process


def test_alteration_tells_from_what_to_what(qm: Qmctl, queue: str) -> None:
    ended = qm("queue", "alter", queue, "--depth-max", "5", "--lease", "2min", "--put-inhibit")
    assert (ended.code, ended.out, ended.err) == (
        0,
        f"altered queue {queue}: depth max 100000000 -> 5; lease 30 s -> 2 min; "
        "put inhibit no -> yes\n",
        "",
    )
    again = qm("queue", "alter", queue, "--put-inhibit", "--depth-max", "5")
    assert (again.code, again.out) == (
        0,
        f"queue {queue} is unchanged: depth max is already 5, put inhibit is already yes\n",
    )
    back = qm("queue", "alter", queue, "--depth-max", "default", "--no-put-inhibit")
    assert back.out == (f"altered queue {queue}: depth max 5 -> 100000000; put inhibit yes -> no\n")


def test_json_is_the_queue_and_what_changed(qm: Qmctl, queue: str) -> None:
    row = qm("queue", "alter", queue, "--bytes-max", "2 MiB", "--get-inhibit", "-o", "json").json
    assert row.pop("changed") == {"bytes_max": [1 << 40, 2 << 20], "get_inhibit": [False, True]}
    shown = qm("queue", "show", queue, "-o", "json").json
    assert (shown.pop("origins"), shown.pop("origins_next")) == ({}, None)
    assert row == shown
    assert (row["given"], row["state"]) == (["bytes_max"], "no gets")
    again = qm("queue", "alter", queue, "--get-inhibit", "-o", "json").json
    assert again["changed"] == {}


def test_inhibited_put_and_get_say_how_to_lift_that(qm: Qmctl, queue: str) -> None:
    qm("queue", "alter", queue, "--put-inhibit", "--get-inhibit")
    put, get = qm("put", queue, "x"), qm("get", queue)
    assert (put.code, get.code) == (6, 6)
    assert put.err == (
        f"error: cannot put on {queue} -- puts are inhibited on queue {queue} "
        f"(PUT_INHIBITED) -- allow them with: qmctl queue alter {queue} --no-put-inhibit\n"
    )
    assert get.err.endswith(f" -- allow them with: qmctl queue alter {queue} --no-get-inhibit\n")
    assert qm("browse", queue).code == 0


@pytest.mark.parametrize(
    ("limit", "shown"), [("--depth-max=1", "depth max 1"), ("--bytes-max=1024", "bytes max 1 KiB")]
)
def test_limit_below_what_is_there_is_said(qm: Qmctl, queue: str, limit: str, shown: str) -> None:
    for _ in range(2):
        qm("put", queue, "x" * 600)
    ended = qm("queue", "alter", queue, limit)
    assert ended.code == 0
    assert ended.err.startswith("note: the queue holds 2 messages (1.2 KiB), ")
    assert ended.err.endswith(
        f", more than {shown}: puts are refused until the queue is below the limit\n"
    )
    assert qm("put", queue, "x").code == 6


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "cannot alter queue {queue} -- no option is given"),
        (
            ["--depth-max", "0"],
            "invalid value for '--depth-max': \"0\" is not a number of messages",
        ),
        (["--depth-max", "many"], '"many" is not a number of messages (1 or more)'),
        (["--lease", "5"], "5 has no unit"),
        (["--lease", "1ms"], "1 ms is too small (100 ms to 1 d)"),
        (["--bytes-max", "-1"], "-1 is negative"),
    ],
)
def test_alteration_that_cannot_be_is_wrong_usage(
    qm: Qmctl, queue: str, options: list[str], why: str
) -> None:
    ended = qm("queue", "alter", queue, *options)
    assert (ended.code, ended.out) == (2, "")
    assert why.format(queue=queue) in ended.err


def test_unknown_queue_is_not_found(qm: Qmctl, queue: str) -> None:
    ended = qm("queue", "alter", "NOWHERE", "--put-inhibit")
    assert (ended.code, ended.out) == (3, "")
    assert "(QUEUE_UNKNOWN)" in ended.err


def test_remote_queue_has_its_puts_inhibited_and_nothing_else(
    qmctl: Qmctl, own_daemon: Daemon
) -> None:
    def qm(*words: str) -> Ended:
        return qmctl("-c", own_daemon.unix, *words)

    qm("link", "create", "ALTER", "127.0.0.1:1", "--stopped")
    qm("queue", "create", "FAR@ALTER")
    assert qm("queue", "alter", "FAR@ALTER", "--put-inhibit").out == (
        "altered queue FAR@ALTER: put inhibit no -> yes\n"
    )
    assert qm("put", "FAR@ALTER", "x").code == 6
    ended = qm("queue", "alter", "FAR@ALTER", "--depth-max", "5")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "error: cannot alter queue FAR@ALTER -- a remote queue has no attribute depth max "
        "(VALUE_INVALID) -- omit --depth-max\n"
    )


def test_dry_run_says_what_would_change_and_changes_nothing(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    qm("put", queue, "y")
    words = ["--depth-max", "1", "--put-inhibit", "--bytes-max", "default"]
    before = qm("queue", "show", queue, "-o", "json").json
    tried = qm("queue", "alter", queue, *words, "--dry-run")
    assert (tried.code, tried.out) == (
        0,
        f"would alter queue {queue}: depth max 100000000 -> 1; put inhibit no -> yes; "
        "nothing changed\n",
    )
    assert tried.err.endswith(
        ", more than depth max 1: puts would be refused until the queue is below the limit\n"
    )
    found = qm("queue", "alter", queue, *words, "--dry-run", "-o", "json").json
    assert found["dry_run"] is True
    assert found["changed"] == {"depth_max": [100_000_000, 1], "put_inhibit": [False, True]}
    assert qm("queue", "show", queue, "-o", "json").json == before
    done = qm("queue", "alter", queue, *words, "-o", "json").json
    assert done["changed"] == found["changed"]
    again = qm("queue", "alter", queue, *words, "--dry-run")
    assert again.out == (
        f"queue {queue} is unchanged: depth max is already 1, bytes max is already 1 TiB by "
        "default, put inhibit is already yes\n"
    )


def test_dry_run_names_a_default_that_it_does_not_know(qm: Qmctl, queue: str) -> None:
    qm("queue", "alter", queue, "--lease", "2min")
    words = ["queue", "alter", queue, "--lease", "default", "--dry-run"]
    assert qm(*words).out == (
        f"would alter queue {queue}: lease 2 min -> the default; nothing changed\n"
    )
    assert qm(*words, "-o", "json").json["changed"] == {"lease_ms": [120_000, None]}


@pytest.mark.parametrize("options", [["--lease", "1ms"], ["--depth-max", "5"]])
def test_dry_run_is_refused_as_the_change_would_be(
    options: list[str], qm: Qmctl, queue: str, way: str
) -> None:
    words = ["queue", "alter", f"{queue}@{way}", *options]
    tried, done = qm(*words, "--dry-run"), qm(*words)
    assert (tried.code, tried.err) == (done.code, done.err)
    assert tried.code == 2


@pytest.mark.parametrize("options", [["--backout-queue", "{}"], ["--backout-queue", "@NYC"]])
def test_dry_run_refuses_an_invalid_value(options: list[str], qm: Qmctl, queue: str) -> None:
    words = ["queue", "alter", queue, *(word.format(queue) for word in options)]
    tried, done = qm(*words, "--dry-run"), qm(*words)
    assert (tried.code, done.code) == (2, 2)
    assert "VALUE_INVALID" in tried.err


def test_limits_are_told_as_they_were_given(qm: Qmctl, queue: str) -> None:
    done = qm("queue", "alter", queue, "--bytes-max", "64MB", "--lease", "90500ms")
    assert done.out == (
        f"altered queue {queue}: bytes max 1 TiB -> 64 MB; lease 30 s -> 90500 ms\n"
    )
    facts = dict(line.split("\t") for line in qm("queue", "show", queue).out.splitlines())
    assert (facts["bytes max"], facts["lease"]) == ("64 MB", "90500 ms")
