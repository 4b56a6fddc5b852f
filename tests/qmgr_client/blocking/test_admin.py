"""Tests of the administration methods without asyncio, with a real daemon in a thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.aio import QueueManager
from qmgr_client.aio import admin as aio_admin
from qmgr_client.blocking import Client, connect
from qmgr_client.blocking.admin import Admin
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.served import Server

VERBS = [name for name in dir(aio_admin.Admin) if not name.startswith("_")]


def test_shells_offer_the_same() -> None:
    assert [name for name in dir(Admin) if not name.startswith("_")] == VERBS
    assert not set(VERBS) & set(dir(Client)), "the methods of operators are only under admin"
    assert not set(VERBS) & set(dir(QueueManager))


def test_queue_is_ensured(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        made = client.admin.queue_ensure("A", depth_max=3)
        assert (made["created"], made["changed"], made["depth_max"]) == (True, {}, 3)
        again = client.admin.queue_ensure("A", depth_max=3)
        assert (again["created"], again["changed"]) == (False, {})


def test_queue_is_browsed_in_the_order_of_arrival(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("A")
        client.put("A", b"x", priority=1)
        client.put("A", b"x", priority=9)
        assert [item[0] for item in client.admin.browse_arrivals("A", 1)["items"]] == [9]


def test_templates_and_aliases(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("APP.A", depth_max=3)
        client.admin.queue_create("SALES", alias_of="APP.A")
        client.put("SALES", b"x")
        assert client.admin.queue_show("APP.A")["depth"] == 1
        assert client.admin.queue_alter("APP.A", retry_factor=2.5)["retry_factor"] == 2.5
        assert client.admin.template_set("APP.*", lease_ms=100)["queues"] == 1
        assert [row["pattern"] for row in client.admin.template_list()] == ["APP.*"]
        assert client.admin.template_delete("APP.*")["queues"] == 1
        with pytest.raises(RequestError) as caught:
            client.admin.template_delete("APP.*")
        assert caught.value.code == ErrorCode.TEMPLATE_UNKNOWN


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q")
        yield client


def test_administration(client: Client, tmp_path: Path) -> None:
    client.admin.link_create("HUB", ["127.0.0.1:1"], stopped=True)
    client.admin.queue_create("B@HUB")
    assert len(client.admin.queue_list()) >= 2
    assert len(client.admin.link_list()["links"]) == 1
    assert client.admin.link_alter("HUB", ["127.0.0.1:2"])["addresses"] == ["127.0.0.1:2"]
    client.admin.link_start("HUB")
    client.admin.link_stop("HUB")
    client.admin.link_show("HUB")
    altered = client.admin.queue_alter("B@HUB", put_inhibit=True)
    assert altered["changed"] == {"put_inhibit": [False, True]}
    client.admin.queue_delete("B@HUB")
    client.admin.link_delete("HUB", purge=True)
    client.put("Q", b"x")
    assert client.admin.queue_purge("Q") == {"messages": 1}
    assert client.admin.status()["name"] == "QM1"
    assert len(client.admin.connection_list()) == 1
    with pytest.raises(RequestError):
        client.admin.connection_close(client.admin.connection_list()[0]["connection"])
    with pytest.raises(RequestError):
        client.admin.snapshot("relative")
