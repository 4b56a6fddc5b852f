import base64
import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import QMCTL, Daemon, OnTerminal, Qmctl

pytestmark = pytest.mark.process


def depth(qm: Qmctl, queue: str) -> tuple[int, int]:
    """Returns the number of messages on the queue, and the number of leased messages."""
    row = qm("queue", "show", queue, "-o", "json").json
    return row["depth"], row["leased"]


def test_put_tells_the_uid_and_get_has_all_of_it(qm: Qmctl, queue: str) -> None:
    put = qm(
        "put",
        queue,
        "one ton",
        "--priority",
        "7",
        "--correlation-id",
        "4711",
        "--header",
        "a=1",
        "--header",
        "b=x=y",
        "--content-type",
        "text/plain",
        "--reply-to",
        "ANSWERS",
    )
    assert (put.code, put.err) == (0, "")
    uid = put.out.strip().removeprefix(f"put on {queue}: ")
    assert uid.startswith("QM.")
    got = qm("get", queue, "-o", "json").json
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", got.pop("put_time"))
    assert got == {
        "queue": queue,
        "uid": uid,
        "origin": "QM",
        "timestamp": int(uid[3:]),
        "priority": 7,
        "delivered": 0,
        "failed": 0,
        "redelivered": "no",
        "leased": False,
        "correlation_id": "4711",
        "reply_to": "ANSWERS",
        "content_type": "text/plain",
        "headers": {"a": "1", "b": "x=y"},
        "body_bytes": 7,
        "body": "one ton",
        "body_base64": None,
        "damage": "",
        "expiry_left_ms": None,
        "delay_ms": 0,
        "persistent": True,
        "group": None,
        "number": None,
        "last": None,
        "topic": None,
        "republished": False,
        "sequence_id": None,
    }
    assert depth(qm, queue) == (0, 0)


def test_put_in_json_has_the_documented_keys(qm: Qmctl, queue: str) -> None:
    put = qm("put", queue, "body", "-o", "json").json
    assert list(put) == ["queue", "messages", "refused", "bytes", "seconds", "uid"]
    assert (put["queue"], put["messages"], put["refused"], put["bytes"]) == (queue, 1, 0, 4)
    assert put["uid"].startswith("QM.")


@pytest.mark.parametrize("body", ["", "%s {0} ü", "-x", "two\nlines\n"])
def test_body_comes_back_as_it_went(body: str, qm: Qmctl, queue: str) -> None:
    assert qm("put", queue, "--", body).code == 0
    assert qm("get", queue, "--body-only").out == body


def test_binary_file_comes_back_as_it_went(qm: Qmctl, queue: str, tmp_path: Path) -> None:
    body = bytes(range(256)) * 100
    (tmp_path / "file").write_bytes(body)
    assert qm("put", queue, "--file", str(tmp_path / "file")).code == 0
    assert qm("put", queue, "--stdin", stdin=body).code == 0
    browsed = qm("browse", queue, "-o", "json").json
    assert [base64.b64decode(message["body_base64"]) for message in browsed] == [body, body]
    assert [message["body"] for message in browsed] == [None, None]


def test_binary_body_leaves_as_it_came(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    body = b"\xff\x00\r\n"
    qm("put", queue, "--stdin", stdin=body)
    words = [*QMCTL, "-c", daemon.unix, "get", queue, "--body-only"]
    assert subprocess.run(words, capture_output=True, check=True).stdout == body


def test_lines_are_messages(qm: Qmctl, queue: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\n\ntwo\r\nlast")
    put = qm("put", queue, "--lines", "--file", str(tmp_path / "lines"))
    assert put.out == f"put on {queue}: 4 messages\n", "a rate of so few would be chance"
    assert qm("put", queue, "--lines", "-o", "json", stdin=b"x\n").json["messages"] == 1
    got = qm("get", queue, "--all", "-o", "json").lines
    assert [message["body"] for message in got] == ["one", "", "two\r", "last", "x"]


def test_many_lines_keep_their_order(qm: Qmctl, queue: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(2_500))
    put = qm("put", queue, "--lines", "-o", "json", stdin=lines).json
    assert (put["messages"], put["uid"]) == (2_500, None)
    assert qm("get", queue, "--all", "--body-only").out.encode() == lines


def test_no_lines_are_no_messages(qm: Qmctl, queue: str) -> None:
    assert qm("put", queue, "--lines", "-o", "json").json["messages"] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "no message is given -- use a BODY, --file FILE, or --stdin to read a pipe"),
        (["two", "words"], "-- if the message has spaces, quote it: 'two words'"),
        (["x", "--stdin"], "BODY, --file and --stdin exclude each other -- use one of them"),
        (["x", "--file", "f"], "BODY, --file and --stdin exclude each other -- use one of them"),
        (["x", "--lines"], "--lines reads --file or standard input, not a BODY"),
        (["--lines", "--uid", "a.1"], "--uid applies to one message, but --lines puts many"),
        (["x", "--uid", "a"], "invalid UID 'a' -- it does not have the form ORIGIN.TIMESTAMP"),
        (["x", "--header", "a"], "invalid --header 'a'"),
        (["x", "--correlation-id", "c" * 65], "it has 65 bytes; the limit is 64"),
    ],
)
def test_put_that_cannot_be_is_wrong_usage(
    words: list[str], why: str, qm: Qmctl, queue: str
) -> None:
    ended = qm("put", queue, *words)
    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err
    assert depth(qm, queue) == (0, 0)


def test_missing_file_is_a_failure(qm: Qmctl, queue: str) -> None:
    for words in (["--file", "/nowhere"], ["--file", "/nowhere", "--lines"]):
        ended = qm("put", queue, *words)
        assert ended.code == 1
        assert ended.err == "error: cannot read /nowhere -- No such file or directory\n"


def test_full_queue_refuses(qm: Qmctl, queue: str) -> None:
    name = f"{queue}.small"
    qm("queue", "create", name, "--depth-max", "2")
    ended = qm("put", name, "--lines", "-o", "json", stdin=b"a\nb\nc\nd\n")
    assert ended.code == 6
    assert (ended.json["messages"], ended.json["refused"]) == (2, 2)
    assert json.loads(ended.err)["error"] == {
        "code": "QUEUE_FULL",
        "exit_code": 6,
        "what": f"cannot put 2 of 4 messages on {name}",
        "why": f"queue {name} is full: it has 2 messages, and the limit is 2 (QUEUE_FULL)",
        "remedy": "get or purge messages, or wait and put again",
    }
    ended = qm("put", name, "e")
    assert (ended.code, ended.out) == (6, "")
    assert ended.err.startswith(f"error: cannot put on {name} -- queue {name} is full")


def test_uid_is_taken_once(qm: Qmctl, queue: str) -> None:
    assert qm("put", queue, "x", "--uid", "my.app.17").out == f"put on {queue}: my.app.17\n"
    ended = qm("put", queue, "x", "--uid", "my.app.17")
    assert (ended.code, ended.out) == (6, "")
    assert f"message my.app.17 already exists on queue {queue} (DUPLICATE_MESSAGE)" in ended.err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["put", "NOWHERE", "x"], "create it with: qmctl queue create NOWHERE"),
        (["get", "NOWHERE"], "see: qmctl queue ls"),
        (["browse", "NOWHERE"], "see: qmctl queue ls"),
    ],
)
def test_unknown_queue_is_not_found(words: list[str], remedy: str, qm: Qmctl) -> None:
    ended = qm(*words)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.endswith(f" (QUEUE_UNKNOWN) -- {remedy}\n")


@pytest.mark.parametrize("name", ["a/b", "%s", "x" * 300, "nul\0"])
@pytest.mark.parametrize("verb", ["put", "get", "browse"])
def test_name_that_is_none_is_wrong_usage(verb: str, name: str, qm: Qmctl) -> None:
    ended = qm(verb, name, *(["x"] if verb == "put" else []))
    assert (ended.code, ended.out) == (2, "")
    assert "NAME_INVALID" in ended.err
    assert ended.err.count("\n") == 1


def test_too_large_a_message_is_refused(qm: Qmctl, queue: str) -> None:
    ended = qm("put", queue, "--stdin", stdin=b"x" * (5 << 20))
    assert ended.code == 6
    assert "MESSAGE_TOO_LARGE" in ended.err
    assert depth(qm, queue) == (0, 0)


def test_get_from_an_empty_queue_has_its_own_code(qm: Qmctl, queue: str) -> None:
    ended = qm("get", queue)
    assert (ended.code, ended.out, ended.err) == (
        7,
        "",
        f"error: got no message from {queue} -- no message was ready right now -- wait "
        f"longer with --wait; see: qmctl queue show {queue}\n",
    )
    assert "no message was ready within 50 ms" in qm("get", queue, "--wait", "50 ms").err
    assert qm("get", queue, "--all") == (0, "", "")


def test_highest_priority_is_got_first(qm: Qmctl, queue: str) -> None:
    for priority in ("1", "9", "4"):
        qm("put", queue, priority, "--priority", priority)
    assert qm("get", queue, "--count", "2", "--body-only").out == "9\n4\n"
    assert depth(qm, queue) == (1, 0)


def test_queue_has_the_priority_of_what_says_none(qm: Qmctl, queue: str) -> None:
    qm("queue", "alter", queue, "--priority-default", "7")
    qm("put", queue, "one")
    qm("put", queue, "--lines", stdin=b"of many\n")
    qm("put", queue, "told", "--priority", "4")
    found = qm("browse", queue, "-o", "json").json
    assert [(row["body"], row["priority"]) for row in found] == [
        ("one", 7),
        ("of many", 7),
        ("told", 4),
    ]


def test_released_message_stays_and_counts_as_failed(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", stdin=b"a\nb\n")
    assert qm("get", queue, "--all", "--release", "--body-only").out == "a\nb\n"
    assert depth(qm, queue) == (2, 0)
    (message, _) = qm("browse", queue, "-o", "json").json
    assert (message["delivered"], message["failed"], message["redelivered"]) == (1, 1, "yes")


def test_message_that_could_not_be_printed_is_given_back(
    qm: Qmctl, queue: str, daemon: Daemon
) -> None:
    qm("put", queue, "x")
    with (
        open("/dev/full", "w") as full,
        subprocess.Popen(
            [*QMCTL, "-c", daemon.unix, "get", queue],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 1
    assert said == "error: cannot write the output -- No space left on device\n"
    assert depth(qm, queue) == (1, 0)


def test_message_whose_reader_has_gone_is_given_back(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    qm("put", queue, "x")
    with subprocess.Popen(
        [*QMCTL, "-c", daemon.unix, "get", queue, "--wait", "20s"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 1
    assert depth(qm, queue) == (1, 0)


def test_ack_that_comes_after_the_lease_is_told(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    qm("put", queue, "--stdin", stdin=b"x" * (1 << 20))  # This body exceeds the buffer of a pipe.
    words = [*QMCTL, "-c", daemon.unix, "get", queue, "--lease", "100 ms", "--body-only"]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        connect(daemon.unix) as other,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"x"  # The message is leased, and qmctl is printing it.
        held = other.get(queue, wait_ms=60_000, lease_ms=60_000)
        assert held is not None
        process.stdout.read()
        said = process.stderr.read().decode()
    assert process.returncode == 6
    assert said.startswith(f"error: cannot acknowledge 1 message from {queue} -- ")
    assert said.endswith("(LEASE_LOST) -- get the message again, with a longer --lease\n")


def test_browse_leaves_all_where_it_is(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", stdin=b"a\nb\nc\n")
    header, row, _ = qm("browse", queue, "--limit", "2").out.splitlines()
    assert header == "UID\tPRIO\tAGE\tREDELIVERED\tLEASED\tCORRELATION\tSIZE\tBODY"
    assert row.endswith("\tno\tno\t\t1 B\ta")
    assert len(qm("browse", queue, "-o", "json").json) == 3
    assert depth(qm, queue) == (3, 0)


def test_browse_of_an_empty_queue_is_empty(qm: Qmctl, queue: str) -> None:
    assert qm("browse", queue, "-o", "json") == (0, "[]\n", "")


def test_json_keys_are_documented(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    (message,) = qm("browse", queue, "-o", "json").json
    for verb in ("get", "browse"):
        said = qm(verb, "--help").out
        assert [key for key in message if key not in said] == []


def test_body_that_is_no_text_goes_to_no_terminal(
    qm: Qmctl, queue: str, on_terminal: OnTerminal
) -> None:
    qm("put", queue, "--stdin", stdin=b"\x1b]0;title\x07")
    ended = on_terminal("get", queue, "--all", "--body-only")
    assert ended.code == 2
    assert "\x1b" not in ended.out
    assert f"write it to a file: qmctl get {queue} --body-only > FILE" in ended.out
    assert depth(qm, queue) == (1, 0)
    assert qm("get", queue, "--body-only").out == "\x1b]0;title\x07"
    qm("put", queue, "plain\ttext\n")
    assert on_terminal("get", queue, "--body-only").code == 0


def test_body_cannot_steer_the_terminal(qm: Qmctl, queue: str, on_terminal: OnTerminal) -> None:
    qm("put", queue, "\x1b]0;title\x07[red]x[/red]\nsecond")
    shown = on_terminal("browse", queue, NO_COLOR="1").out
    assert "\x1b]" not in shown
    shown = on_terminal("get", queue, NO_COLOR="1").out
    assert "\x1b]" not in shown
    assert "\\x1b]0;title\\x07[red]x[/red]\nsecond\n" in shown


def test_put_with_a_time_waits_or_is_given_up(qm: Qmctl, queue: str) -> None:
    put, tomorrow = ["put", queue, "x"], (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert qm(*put, "--deliver-at", tomorrow).code == 0
    assert qm(*put, "--deliver-at", "2000-01-01T00:00").code == 0
    assert qm(*put, "--expiry", "1h", "--non-persistent").code == 0
    row = qm("queue", "show", queue, "-o", "json").json
    assert (row["delayed"], row["ready"], row["volatile"]) == (1, 2, 1)
    assert qm("browse", queue, "--where", "size = 1", "-o", "json").json[1]["body"] == "x"


@pytest.mark.parametrize(
    "words",
    [
        ["--delay", "1h", "--deliver-at", "2100-01-01T00:00Z"],
        ["--deliver-at", "soon"],
        ["--report"],
        ["--expiry", "1"],
        ["--delay", "-1s"],
    ],
)
def test_put_with_a_time_that_cannot_be_is_wrong_usage(
    words: list[str], qm: Qmctl, queue: str
) -> None:
    ended = qm("put", queue, "x", *words)
    assert (ended.code, ended.out) == (2, "")
    assert qm("queue", "show", queue, "-o", "json").json["puts"] == 0
