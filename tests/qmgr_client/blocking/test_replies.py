"""Tests of requests and replies without asyncio, between threads of one program."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, RequestTimeout, connect
from tests.qmgr_client.served import Server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("ASKED")
        yield client


def test_request_has_its_reply(client: Client) -> None:
    def reply() -> None:
        message = client.get("ASKED", wait_ms=10_000)
        assert message is not None
        with client.processing(message):
            client.reply(message, message.body.upper())

    thread = threading.Thread(target=reply)
    thread.start()
    found = client.request("ASKED", b"pears", 10_000)
    thread.join()
    assert found.body == b"PEARS"
    assert client.admin.queue_show("ASKED")["depth"] == 0


def test_request_without_a_reply_times_out(client: Client) -> None:
    with pytest.raises(RequestTimeout, match="within 30 ms"):
        client.request("ASKED", b"x", 30)
