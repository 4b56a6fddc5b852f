"""Proxies: what goes over a link to the same topic elsewhere, and what does not."""

from qmgr_protocol import messages as m
from tests.qmgrd.core.harness import Client


def test_proxy_carries_what_it_selects(app: Client) -> None:
    """A selector of a proxy knows its topic, and the priority that the producer gave."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.Subscribe, "a/#", ":s@NYC", "topic = 'a/b' AND priority > 4")
    app.put("/a/b", b"1", priority=9)
    app.put("/a/b", b"2", priority=1)
    app.put("/a/c", b"3", priority=9)
    app.manager.rest()
    assert app.ask(m.QueueShow, "@NYC")["depth"] == 1
    assert app.ask(m.QueueShow, "SYSTEM.PUBLICATIONS")["depth"] == 0


def test_message_goes_once_whatever_the_number_of_proxies(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    for topic, name in (("a/#", ":s@NYC"), ("a/+", ":t@NYC"), ("b", ":u@NYC")):
        app.ask(m.Subscribe, topic, name)
    app.put("/a/b", b"1")
    app.manager.rest()
    assert app.ask(m.QueueShow, "@NYC")["depth"] == 1
