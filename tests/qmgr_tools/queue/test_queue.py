import re

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl

pytestmark = pytest.mark.process
BAD_NAMES = ["a/b", "%s", "", "x" * 300, "ä", "two words", "nul\0", "a@b@c", "NAME@"]


def test_created_queue_has_what_was_given(qm: Qmctl, queue: str) -> None:
    name = f"{queue}.limited"
    ended = qm("queue", "create", name, "--depth-max", "5", "--bytes-max", "2 MiB", "--lease", "5s")
    assert (ended.code, ended.out, ended.err) == (0, f"created queue {name}\n", "")
    row = qm("queue", "show", name, "-o", "json").json
    assert (row["depth_max"], row["bytes_max"], row["lease_ms"]) == (5, 2 << 20, 5_000)


def test_creating_it_again_just_so_changes_nothing(qm: Qmctl, queue: str) -> None:
    ended = qm("queue", "create", queue, "-o", "json")
    assert ended.code == 0
    assert ended.json["queue"] == queue
    assert qm("queue", "create", queue).out == f"queue {queue} already exists\n"


def test_creating_it_with_other_attributes_is_refused(qm: Qmctl, queue: str) -> None:
    ended = qm("queue", "create", queue, "--depth-max", "5", "--lease", "1min")
    assert (ended.code, ended.err) == (
        6,
        f"error: cannot create queue {queue} -- it already exists with other attributes: "
        "depth max is 100000000 by default, requested 5; lease is 30 s by default, "
        "requested 1 min -- "
        f"to change them: qmctl queue alter {queue} --depth-max 5 --lease '1 min'\n",
    )


def test_creating_it_with_fewer_attributes_is_refused(qm: Qmctl, queue: str) -> None:
    qm("queue", "create", f"{queue}.5", "--depth-max", "5", "--lease", "30s")
    ended = qm("queue", "create", f"{queue}.5", "--lease", "30s")
    assert ended.code == 6
    assert (
        "it already exists with other attributes: depth max is 5, requested the default -- "
        in ended.err
    )


def test_creating_it_with_what_is_the_default_anyway_is_told_from_that(
    qm: Qmctl, queue: str
) -> None:
    ended = qm("queue", "create", queue, "--lease", "30s")
    assert ended.code == 6
    assert "other attributes: lease is 30 s by default, requested 30 s --" in ended.err


def test_state_of_each_queue_is_listed(qm: Qmctl, queue: str) -> None:
    for name, options in (
        ("no-puts", ["--put-inhibit"]),
        ("no-gets", ["--get-inhibit"]),
        ("closed", ["--put-inhibit", "--get-inhibit"]),
    ):
        qm("queue", "create", f"{queue}.{name}")
        assert qm("queue", "alter", f"{queue}.{name}", *options).code == 0

    def states(*where: str) -> list[str]:
        rows = ["queue", "ls", "--columns", "state", "--where", f"queue={queue}*", *where]
        return qm(*rows).out.splitlines()[1:]

    assert states() == ["open", "closed", "no gets", "no puts"]
    assert states("--where", "put_inhibit=yes") == ["closed", "no puts"]
    assert states("--where", "state!=open", "--where", "get_inhibit=no") == ["no puts"]
    shown = qm("queue", "show", f"{queue}.closed", "-o", "json").json
    assert (shown["state"], shown["put_inhibit"], shown["get_inhibit"]) == ("closed", True, True)


def test_list_fits_a_narrow_terminal(
    qmctl: Qmctl, own_daemon: Daemon, on_terminal: OnTerminal
) -> None:
    where = ["-c", own_daemon.unix]
    qmctl(*where, "link", "create", "NARROW", "127.0.0.1:1", "--stopped")
    qmctl(*where, "queue", "alter", "@NARROW", "--put-inhibit")
    shown = on_terminal(*where, "queue", "ls", COLUMNS="80", NO_COLOR="1")
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.out.splitlines()]
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("@NARROW  transmission  no puts ")


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("verb", ["create", "show", "delete", "purge"])
def test_name_that_is_none_is_wrong_usage(verb: str, name: str, qm: Qmctl) -> None:
    ended = qm("queue", verb, name)
    assert (ended.code, ended.out) == (2, "")
    assert "(NAME_INVALID)" in ended.err
    assert ended.err.count("\n") == 1
    assert "\0" not in ended.err
    assert len(ended.err) < 1_000


@pytest.mark.parametrize("words", [["show"], ["delete", "-y"], ["purge", "-y"]])
def test_unknown_queue_is_not_found(words: list[str], qm: Qmctl) -> None:
    verb, *options = words
    ended = qm("queue", verb, "NOWHERE", *options)
    assert (ended.code, ended.out, ended.err) == (
        3,
        "",
        f"error: cannot {verb} queue NOWHERE -- queue NOWHERE does not exist here "
        "(QUEUE_UNKNOWN) -- see: qmctl queue ls\n",
    )


def test_queue_like_the_unknown_one_is_named(qm: Qmctl) -> None:
    qm("queue", "create", "Orders.In")
    for words in (["queue", "show"], ["queue", "purge", "-y"], ["get"], ["browse"]):
        said = qm(*words, "ORDER.IN").err
        assert said.endswith(" -- did you mean Orders.In? see: qmctl queue ls\n")


def test_remote_queue_without_its_link_is_not_found(qm: Qmctl) -> None:
    ended = qm("queue", "create", "Q@NOWHERE")
    assert ended.code == 3
    assert "create it with: qmctl link create NOWHERE HOST:PORT" in ended.err


def test_list_is_filtered_sorted_and_cut(own_daemon: Daemon, qmctl: Qmctl) -> None:
    def qm(*words: str) -> str:
        ended = qmctl("-c", own_daemon.unix, *words)
        assert (ended.code, ended.err) == (0, "")
        return ended.out

    assert qm("queue", "ls", "-o", "json") == "[]\n"
    for number, name in enumerate(["B", "A", "C"]):
        qm("queue", "create", name)
        for _ in range(number):
            qm("put", name, "body")
    assert qm("queue", "ls", "--columns", "queue,ready") == "QUEUE\tREADY\nA\t1\nB\t0\nC\t2\n"
    short = ["queue", "ls", "--columns", "queue"]
    assert qm(*short, "--sort", "-ready") == "QUEUE\nC\nA\nB\n"
    assert qm(*short, "--where", "ready>0", "--where", "queue!=A") == "QUEUE\nC\n"
    assert qm(*short, "--sort", "-ready", "--limit", "1") == "QUEUE\nC\n"
    assert qm("queue", "ls").startswith(
        "QUEUE\tKIND\tSTATE\tREADY\tLEASED\tBYTES\tCONSUMERS\tPUTS\t"
    )


def test_list_in_json_has_the_keys_of_show(qm: Qmctl, queue: str) -> None:
    (row,) = qm("queue", "ls", "-o", "json", "--where", f"queue={queue}").json
    shown = qm("queue", "show", queue, "-o", "json").json
    assert (shown.pop("origins"), shown.pop("origins_next")) == ({}, None)
    assert row == shown
    said = qm("queue", "show", "--help").out
    assert [key for key in row if key not in said] == []


@pytest.mark.parametrize(
    "words", [["--where", "redy>0"], ["--where", "ready"], ["--columns", "x"], ["--sort", "-x"]]
)
def test_list_that_cannot_be_is_refused_before_asking(words: list[str], qmctl: Qmctl) -> None:
    ended = qmctl("-c", "unix:/nowhere", "queue", "ls", *words)
    assert (ended.code, ended.out) == (2, "")


def test_show_has_all_counters_and_the_origins(qm: Qmctl, queue: str) -> None:
    for uid in ("app.5", "app.9", "app.7", "other.1"):
        assert qm("put", queue, "x", "--uid", uid).code == 0
    assert qm("put", queue, "x", "--uid", "app.9").code == 6
    row = qm("queue", "show", queue, "-o", "json").json
    assert (row["puts"], row["fast"], row["slow"], row["duplicates"]) == (4, 3, 1, 1)
    assert row["origins"] == {"app": 9, "other": 1}
    shown = qm("queue", "show", queue).out
    assert "\nduplicates\t1\n" in shown
    assert shown.endswith("\nORIGIN\tHIGHEST TIMESTAMP\napp\t9\nother\t1\n")


def test_delete_of_a_queue_with_messages_wants_purge(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    ended = qm("queue", "delete", queue, "--yes")
    assert (ended.code, ended.err) == (
        6,
        f"error: cannot delete queue {queue} -- it holds 1 message -- "
        "get the messages, or delete the queue with --purge\n",
    )
    ended = qm("queue", "delete", queue, "--yes", "--purge", "-o", "json")
    assert ended.json == {"queue": queue, "messages": 1}
    assert qm("queue", "show", queue).code == 3


@pytest.mark.parametrize("verb", ["delete", "purge"])
def test_without_a_terminal_nothing_is_lost_unless_yes_is_said(
    verb: str, qm: Qmctl, queue: str
) -> None:
    qm("put", queue, "x")
    purge = ["--purge"] if verb == "delete" else []
    ended = qm("queue", verb, queue, *purge, stdin=queue.encode())
    assert (ended.code, ended.out) == (2, "")
    assert f"error: did not {verb} queue {queue} -- 1 message" in ended.err
    assert " -- to confirm, add --yes" in ended.err
    assert qm("queue", "show", queue).code == 0


@pytest.mark.parametrize("words", [[], ["--purge"]])
def test_empty_queue_is_deleted_unasked(words: list[str], qm: Qmctl, queue: str) -> None:
    assert qm("queue", "delete", queue, *words).out == f"deleted queue {queue} and 0 messages\n"


def test_alias_of_a_deleted_queue_is_told_of(qm: Qmctl, queue: str) -> None:
    alias = f"{queue}.ALIAS"
    qm("queue", "create", alias, "--alias-of", queue)
    tail = f"no target; to delete it: qmctl queue delete {alias}\n"
    tried = qm("queue", "delete", queue, "--dry-run")
    assert tried.err == f"note: alias {alias} would have {tail}"
    assert qm("queue", "delete", queue).err == f"note: alias {alias} has {tail}"
    assert qm("queue", "delete", alias).err == ""


def test_open_breaker_is_a_state(qm: Qmctl, daemon: Daemon, queue: str) -> None:
    qm("queue", "alter", queue, "--breaker-percent", "50", "--breaker-messages-min", "1")
    qm("queue", "alter", queue, "--breaker-pause", "1h")
    qm("put", queue, "x")
    with connect(daemon.unix) as client:
        message = client.get(queue)
        assert message is not None
        client.release(message, failed=True)
    assert qm("queue", "ls", "--columns", "state", "--where", f"queue={queue}").out == (
        "STATE\nbreaker\n"
    )


def test_limit_of_the_queue_itself_is_what_is_to_be_raised(qm: Qmctl, queue: str) -> None:
    qm("queue", "alter", queue, "--message-max", "1KiB")
    ended = qm("put", queue, "--stdin", stdin=b"x" * 2_000)
    assert ended.code == 6
    assert f" -- split it, or raise the limit with: qmctl queue alter {queue} --mess" in ended.err


def test_purge_of_what_a_selector_says(qm: Qmctl, queue: str) -> None:
    for body in ("a", "bb", "cc"):
        qm("put", queue, body)
    qm("put", queue, "dd", "--delay", "1h")
    words = ["queue", "purge", queue, "--where", "size = 2"]
    tried = qm(*words, "--dry-run")
    assert tried.out.startswith(f"would purge 3 messages from queue {queue}; nothing changed\n")
    row = qm(*words, "--dry-run", "-o", "json").json
    assert (row["dry_run"], row["messages"], len(row["first"])) == (True, 3, 3)
    asked = qm(*words)
    assert (asked.code, "3 messages will be lost" in asked.err) == (2, True)
    assert qm(*words, "--yes").out == f"purged 3 messages from queue {queue}\n"
    assert [row["body"] for row in qm("browse", queue, "-o", "json").json] == ["a"]
    assert qm("queue", "purge", queue, "--where", "size =", "--yes").code == 2


def test_purge_counts_delayed_messages_before_it_removes_them(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "a")
    qm("put", queue, "b", "--delay", "1h")
    assert "2 messages will be lost" in qm("queue", "purge", queue).err
    assert qm("queue", "purge", queue, "--dry-run", "-o", "json").json["messages"] == 2
    assert qm("queue", "purge", queue, "-y", "-o", "json").json["messages"] == 2


def test_purge_tells_how_many_went(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", stdin=b"a\nb\n")
    assert qm("queue", "purge", queue, "-y").out == f"purged 2 messages from queue {queue}\n"
    assert qm("queue", "purge", queue, "-y", "-o", "json").json == {"queue": queue, "messages": 0}
