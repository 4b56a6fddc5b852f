"""Tests of processing blocks without asyncio. The end of a block settles its message."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, ConnectionEnded, Message, RequestError, connect
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.served import Server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q")
        yield client


def got(client: Client, queue: str = "Q", lease_ms: int = 0) -> Message:
    message = client.get(queue, wait_ms=5_000, lease_ms=lease_ms)
    assert message is not None
    return message


def test_block_that_ends_acknowledges(client: Client) -> None:
    client.put("Q", b"x")
    message = got(client)
    with client.processing(message) as same:
        assert same is message
    assert client.admin.queue_show("Q")["depth"] == 0


def test_exception_releases_with_its_type_and_text(client: Client) -> None:
    client.put("Q", b"x")
    with pytest.raises(LookupError), client.processing(got(client)):
        raise LookupError("no such customer")
    message = got(client)
    assert message.failed == 1
    assert (message.attempts[0].reason, message.attempts[0].text) == (
        "LookupError",
        "no such customer",
    )


def test_ctrl_c_gives_the_message_back_and_is_no_failure(client: Client) -> None:
    client.put("Q", b"x")
    with pytest.raises(KeyboardInterrupt), client.processing(got(client)):
        raise KeyboardInterrupt
    assert got(client).failed == 0


def test_settle_inside_the_block_is_kept(client: Client) -> None:
    client.put("Q", b"x")
    with client.processing(got(client)) as message:
        client.release(message, failed=False)
    assert client.admin.queue_show("Q")["depth"] == 1


def test_lost_lease_raises(client: Client) -> None:
    client.put("Q", b"x")
    message = got(client, lease_ms=20)
    with pytest.raises(RequestError) as caught, client.processing(message):
        got(client)
    assert caught.value.code == ErrorCode.LEASE_LOST


def test_error_of_the_work_comes_before_that_of_a_closed_client(client: Client) -> None:
    client.put("Q", b"x")
    message = got(client)

    def work() -> None:
        with client.processing(message):
            client.close()
            raise LookupError("no such customer")

    with pytest.raises(LookupError) as caught:
        work()
    assert caught.value.__notes__ == [
        "the end of the block also failed: CANCELLED: the client was closed"
    ]
    assert not isinstance(caught.value, ConnectionEnded)
