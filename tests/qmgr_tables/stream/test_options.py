"""Tests of the options of streams: values, defaults and errors."""

import pytest

from qmgr_tables.options import OptionInvalid
from qmgr_tables.stream.options import WAIT_MS, is_streamed, parse

URL = {"url": "127.0.0.1:7470", "cursor": "lake"}
MESSAGES = {"url": "127.0.0.1:7470", "table": "messages"}


def test_defaults() -> None:
    found = parse(URL)
    assert found.urls == ("127.0.0.1:7470",)
    assert (found.cursor, found.from_latest, found.skip_lost) == ("lake", False, False)
    assert (found.rows_max, found.bytes_max, found.wait_ms) == (None, None, WAIT_MS)
    assert (found.of.table, found.of.paths) == ("history", ())


def test_options_are_spelled_in_any_case() -> None:
    found = parse(
        {
            "URL": "nyc:1, /run/qmgrd.sock,unix:/run/b.sock",
            "Cursor": " lake ",
            "waitms": "0",
            "STARTINGOFFSETS": "Latest",
            "failondataloss": "False",
            "maxrowspertrigger": "10",
            "maxBytesPerTrigger": "20",
            "queues": "A,B",
            "rowsPerPartition": "7",
            "TABLE": "history",
        }
    )
    assert found.urls == ("nyc:1", "unix:/run/qmgrd.sock", "unix:/run/b.sock")
    assert (found.from_latest, found.skip_lost, found.wait_ms) == (True, True, 0)
    assert (found.rows_max, found.bytes_max) == (10, 20)
    assert (found.of.queues, found.of.rows_per_partition) == (frozenset({"A", "B"}), 7)


def test_messages_have_no_cursor_and_what_tables_of_them_take() -> None:
    found = parse(
        {
            **MESSAGES,
            "states": "ready",
            "includePayload": "false",
            "MAXBODYBYTES": "9",
            "queuesPattern": "A.*",
            "since": "2024-05-01",
            "minPartitions": "3",
            "cursor": " ",
        }
    )
    assert (found.cursor, found.of.table, found.of.paths) == ("", "messages", ())
    assert (found.of.states, found.of.include_body) == (frozenset({"ready"}), False)
    assert (found.of.max_body_bytes, found.of.min_partitions) == (9, 3)
    assert (found.of.queues_pattern, found.of.since_us) == ("A.*", 1_714_521_600_000_000)


def test_snapshots_take_no_cursor() -> None:
    found = parse({"path": "/snapshots"})
    assert (found.urls, found.cursor, found.of.paths) == ((), "", ("/snapshots",))
    with pytest.raises(OptionInvalid, match="option cursor: snapshots have no cursor; omit it"):
        parse({"path": "/snapshots", "cursor": "lake"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {},
            r"option url is missing; name the addresses .* \"127.0.0.1:7470\"\), "
            r"or a directory",
        ),
        ({"url": "a:1"}, "option cursor is missing; name a separate cursor for each stream"),
        ({**URL, "path": "/x"}, "options url and path: a stream reads only one of them; omit one"),
        ({**URL, "cursor": "a b"}, "option cursor: 'a b' is not a valid name; use 1 to 64 of"),
        (
            {**URL, "url": "nowhere"},
            'option url: "nowhere" is not host:port, tls:host:port or unix:/path; write',
        ),
        ({**URL, "url": "a:1,a:1"}, "option url: a:1 is listed twice; list it once"),
        ({**URL, "startingOffsets": "new"}, "'new' is not a valid value; use earliest or latest"),
        (
            {**URL, "failOnDataLoss": "no"},
            "failOnDataLoss: 'no' is not a valid value; use true or false",
        ),
        ({**URL, "maxRowsPerTrigger": "0"}, "maxRowsPerTrigger: '0' is not an integer from 1 to"),
        ({**URL, "maxBytesPerTrigger": "9" * 20}, "maxBytesPerTrigger: '9+' is not an integer"),
        (
            {**URL, "waitMs": "-1"},
            "waitMs: '-1' is not an integer from 0 to 86400000; correct the value",
        ),
        ({**URL, "cursr": "x"}, "option 'cursr' is unknown for streams; did you mean cursor?"),
        ({**URL, "onDamaged": "skip"}, "option 'onDamaged' is unknown for streams; "),
        (
            {**URL, "includePayload": "false"},
            "includePayload: history has neither bodies nor states; o",
        ),
        (
            {**URL, "maxBodyBytes": "1"},
            "option maxBodyBytes: history has neither bodies nor states",
        ),
        (
            {**URL, "table": "queues"},
            "table: queues cannot be streamed, only history, messages; read",
        ),
        (
            {**URL, "table": "message"},
            "option table: 'message' is not a valid table; did you mean messages",
        ),
        (
            {**URL, "table": "messages"},
            "option cursor: streams of messages have no cursor; omit it",
        ),
        (
            {"path": "/x", "table": "messages"},
            "option table: messages, the default, can be streamed only from a url",
        ),
        (
            {**MESSAGES, "path": "/x"},
            "options url and path: a stream reads only one of them; omit one",
        ),
        ({**MESSAGES, "states": "lost"}, "option states: 'lost' is not a valid state; the states"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionInvalid, match=said) as refused:
        parse(given)
    assert "\n" not in str(refused.value)


def test_options_of_streams_only_tell_a_stream() -> None:
    assert is_streamed({"URL": "x"})
    assert is_streamed({"failOnDataLoss": "x"})
    assert not is_streamed({"path": "x", "table": "history"})


def test_queue_manager_with_standbys_is_one_url() -> None:
    found = parse({**MESSAGES, "url": "tls://app@a:1|tls:b:2, tls:c:3", "caFile": "/ca"})
    assert found.urls == ("tls:app@a:1,tls:b:2", "tls:c:3")
    assert "tls" in found.access.arguments(found.urls[0])
    with pytest.raises(OptionInvalid, match="option url: it occurs twice in the list"):
        parse({**MESSAGES, "url": "a:1|a:1"})
