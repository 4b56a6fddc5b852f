"""Tests that a start sets invalid definitions aside and loads all others."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.qmgrd.core.harness import Client, Manager


@pytest.fixture
def app() -> Client:
    app = Manager().connect()
    for name in ("A", "B"):
        app.ask(m.QueueCreate, name)
        app.put(name, name.encode())
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "ORDERS@NYC")
    app.put("ORDERS@NYC", b"1")
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": "A"})
    return app


def change(app: Client, key: bytes, **changes: Any) -> Client:
    """Changes a stored row, starts again, and returns a new client."""
    tx = app.manager.store.begin()
    row = unpack(rows.find(tx, key) or b"")
    rows.put(tx, key, pack(row | changes))
    app.manager.store.commit()
    app.manager.crash()
    return app.manager.connect("again")


def aside(app: Client) -> list[str]:
    return [item["what"] for item in app.ask(m.AsideList)["items"]]


def test_queue_is_set_aside_and_comes_back_with_its_messages(app: Client) -> None:
    good = app.manager.scan(keys.SPACE_QUEUE + b"A")
    app = change(app, keys.SPACE_QUEUE + b"A", depth_max="many")
    assert aside(app) == ["the definition of queue A"]
    assert app.bodies("B") == [b"B"]
    item = app.manager.turns.broker.context.aside.items[1]
    assert item.why == "ValueError: depth_max is 'many', not an integer from -1 to 9007199254740992"
    assert app.ask(m.AsideRetry, 1)["retried"] == "read at the next start"
    app.manager.crash()  # The row is still invalid.
    app = app.manager.connect()
    assert aside(app) == ["the definition of queue A"]
    app.ask(m.AsideRetry, 1)
    tx = app.manager.store.begin()
    tx.put(*good[0])
    app.manager.store.commit()
    app.manager.crash()
    assert app.manager.connect().bodies("A") == [b"A"]


def test_two_queues_of_one_id_are_one(app: Client) -> None:
    queue_id = app.manager.queue("A").id
    app = change(app, keys.SPACE_QUEUE + b"B", queue_id=queue_id)
    assert "the definition of queue B" in aside(app)
    assert app.bodies("A") == [b"A"]


def test_queue_of_an_id_that_has_no_counters_is_set_aside(app: Client) -> None:
    app.ask(m.QueueCreate, "C")
    app.ask(m.QueueDelete, "C")
    app.manager.rest()
    gone = int(app.manager.turns.broker.catalogue.next_queue_id()) - 1
    app.manager.store.abort()
    app = change(app, keys.SPACE_QUEUE + b"B", queue_id=gone)
    assert sorted(aside(app)) == ["the counters of queue id 2", "the definition of queue B"]


def test_remote_queues_are_set_aside_and_restored_with_their_link(app: Client) -> None:
    good = app.manager.scan(keys.SPACE_LINK)
    app = change(app, keys.SPACE_LINK + b"NYC", addresses=7)
    assert aside(app) == [
        "the definition of link NYC",
        "the definition of queue @NYC",
        "the definition of queue ORDERS@NYC",
    ]
    names = [row["queue"] for row in app.ask(m.QueueList)["queues"]]
    assert names == ["A", "ALIAS", "B", "SYSTEM.EVENTS"]
    for number in (1, 2, 3):
        app.ask(m.AsideRetry, number)
    tx = app.manager.store.begin()
    tx.put(*good[0])
    app.manager.store.commit()
    app.manager.crash()
    app = app.manager.connect()
    assert (app.bodies("@NYC"), aside(app)) == ([b"1"], [])


def test_alias_of_an_alias_is_set_aside(app: Client) -> None:
    app.ask(m.QueueCreate, "OTHER", {"alias_of": "B"})
    app = change(app, keys.SPACE_QUEUE + b"OTHER", alias_of="ALIAS")
    assert aside(app) == ["the definition of queue OTHER"]


def test_job_that_would_remove_a_queue_that_is_defined_is_set_aside(app: Client) -> None:
    app.manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app.ask(m.QueueDelete, "B", True)
    ((key, _),) = app.manager.scan(keys.SPACE_JOB)
    app = change(app, key, queue_id=app.manager.queue("A").id)
    app.manager.rest()
    assert app.bodies("A") == [b"A"]
    assert aside(app)[0].startswith("job id ")


@pytest.mark.parametrize("space", [keys.SPACE_TEMPLATE, keys.SPACE_TOPIC])
def test_template_or_topic_is_set_aside(app: Client, space: bytes) -> None:
    app.ask(m.TemplateSet, "T", {"depth_max": 7})
    app.ask(m.TopicSet, "T", {"republish": "healthy"})
    app = change(app, space + b"T", depth_max="", republish=7)
    assert len(aside(app)) == 1
    assert app.bodies("A") == [b"A"]
