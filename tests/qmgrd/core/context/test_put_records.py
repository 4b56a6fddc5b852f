"""Tests of batches that are larger than the queue's limit (G13)."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.harness import AnyStore, Client, record

DISCARD = {"overflow": "discard-oldest"}


def test_of_a_batch_that_is_larger_than_the_queue_the_last_stay_G13(
    store: AnyStore, app: Client
) -> None:
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 4})
    app.put("Q", *[b"%d" % i for i in range(10)])
    assert app.bodies("Q") == [b"6", b"7", b"8", b"9"]
    app.put("Q", *[b"%d" % i for i in range(5)], uid=None)
    assert app.bodies("Q") == [b"1", b"2", b"3", b"4"]


def test_what_would_not_fit_into_the_empty_queue_pushes_nothing_out_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", DISCARD | {"bytes_max": 10_000})
    app.put("Q", b"1", b"2")
    found = app.put_records("Q", record(bytes(11_000)), record(b"3"))
    assert [(x.seq_id, x.code) for x in found] == [(3, ErrorCode.QUEUE_BYTES_FULL)]
    assert app.bodies("Q") == [b"1", b"2", b"3"]
