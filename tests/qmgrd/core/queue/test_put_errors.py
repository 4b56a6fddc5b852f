"""Tests that errors of refused puts state the limit and the actual number."""

from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.queue import put_errors
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore


def a_queue(message_max_bytes: int = 0, dedup_retention_ms: int = 0) -> Queue:
    found = Bounds(3, 1_000, 1_000, 100, message_max_bytes, dedup_retention_ms=dedup_retention_ms)
    counters = Counters(depth=3, bytes=990)
    return Queue(1, "Q", found, counters, Ids(1), Schedule())


def test_full_queue_reports_its_depth_and_its_limit() -> None:
    error = put_errors.queue_full_error(a_queue())
    assert (error.code, error.retry_after_ms) == (ErrorCode.QUEUE_FULL, 1_000)
    assert error.text == "queue Q is full: it has 3 messages, and the limit is 3"


def test_bytes_beyond_the_limit_are_named() -> None:
    error = put_errors.queue_bytes_full_error(a_queue(), 20)
    assert error.code == ErrorCode.QUEUE_BYTES_FULL
    assert error.text == "queue Q has 990 bytes, and 20 more exceed the limit of 1000"


def test_long_message_names_the_limit_that_it_exceeds() -> None:
    own = put_errors.message_too_large_error(a_queue(message_max_bytes=5), 6, 5)
    assert "raise message_max_bytes of the queue" in own.text
    assert put_errors.message_too_large_error(a_queue(), 6, 5).text == (
        "message of 6 bytes (body, headers and 24 more) exceeds the limit of 5 bytes"
    )


def test_remembered_duplicate_reports_for_how_long() -> None:
    trailer = b"QM1" + (7).to_bytes(8, "big")
    error = put_errors.duplicate_error(a_queue(dedup_retention_ms=50), MemoryStore(), trailer, b"")
    assert error.code == ErrorCode.DUPLICATE_MESSAGE
    assert "message QM1.7 was consumed from queue Q" in error.text
    assert "for 50 ms after consumption" in error.text


def test_stored_duplicate_is_reported() -> None:
    trailer = b"QM1" + (7).to_bytes(8, "big")
    error = put_errors.duplicate_error(a_queue(), MemoryStore(), trailer, b"")
    assert error.text == "message QM1.7 already exists on queue Q"
