"""The verbs of administration without async, against a real daemon in a thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, RequestError, connect
from tests.qmgr_client.served import Server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.queue_create("Q")
        yield client


def test_administration(client: Client, tmp_path: Path) -> None:
    client.link_create("HUB", ["127.0.0.1:1"], stopped=True)
    client.queue_create("B@HUB")
    assert len(client.queue_list()) >= 2
    assert len(client.link_list()["links"]) == 1
    assert client.link_alter("HUB", ["127.0.0.1:2"])["addresses"] == ["127.0.0.1:2"]
    client.link_start("HUB")
    client.link_stop("HUB")
    client.link_show("HUB")
    altered = client.queue_alter("B@HUB", {"put_inhibit": True})
    assert altered["changed"] == {"put_inhibit": [False, True]}
    client.queue_delete("B@HUB")
    client.link_delete("HUB", purge=True)
    client.put("Q", b"x")
    assert client.queue_purge("Q") == {"messages": 1}
    assert client.status()["name"] == "QM1"
    assert len(client.connection_list()) == 1
    with pytest.raises(RequestError):
        client.connection_close(client.connection_list()[0]["connection"])
    with pytest.raises(RequestError):
        client.snapshot("relative")
