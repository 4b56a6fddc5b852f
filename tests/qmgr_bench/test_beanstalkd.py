from socket import socket
from typing import cast

import pytest

from qmgr_bench.beanstalkd import BeanstalkdReceiver, BeanstalkdSender
from qmgr_bench.load import LoadFailed

NOBODY = cast(socket, None)  # The tests examine only the bytes, so no socket is needed.


def test_puts_are_counted_by_lines_however_they_arrive() -> None:
    sender = BeanstalkdSender(NOBODY, [b"a", b"bc"])
    assert sender.put(2) == b"put 0 0 3600 1\r\na\r\nput 0 0 3600 2\r\nbc\r\n"
    assert [sender.take(piece) for piece in (b"INSER", b"TED 1\r", b"\nINSERTED 2\r\n")] == [
        0,
        0,
        2,
    ]


def test_refused_put_is_a_failure() -> None:
    with pytest.raises(LoadFailed, match="OUT_OF_MEMORY"):
        BeanstalkdSender(NOBODY, [b"a"]).take(b"OUT_OF_MEMORY\r\n")


def test_what_is_reserved_is_deleted_and_more_is_asked_for() -> None:
    receiver = BeanstalkdReceiver(NOBODY, 4)
    assert receiver.start() == b"reserve-with-timeout 1\r\n"
    assert receiver.take(b"RESERVED 7 2\r\nx") == (b"", 0, 0)
    assert receiver.take(b"\r\r\n") == (b"delete 7\r\n" + b"reserve-with-timeout 0\r\n" * 2, 1, 0)
    assert receiver.take(b"DELETED\r\n") == (b"", 0, 1)
    assert receiver.take(b"TIMED_OUT\r\nTIMED_OUT\r\n") == (b"reserve-with-timeout 1\r\n", 0, 0)


def test_late_delete_is_a_failure() -> None:
    with pytest.raises(LoadFailed, match="NOT_FOUND"):
        BeanstalkdReceiver(NOBODY, 4).take(b"NOT_FOUND\r\n")
