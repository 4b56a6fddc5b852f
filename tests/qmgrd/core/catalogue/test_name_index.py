"""Tests of the remote queues and proxies of another queue manager."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue import route
from qmgrd.core.catalogue.name_index import NameIndex, manager_of, target_of
from qmgrd.core.catalogue.named import Alias, ProxySubscription, Remote
from tests.qmgrd.core.harness import Client

QUEUES = 500


def test_names_are_found_by_their_queue_manager_until_none_is_left() -> None:
    remotes = NameIndex(manager_of)
    found = [
        Remote("Q@NYC", "Q", "NYC"),
        ProxySubscription(":p@NYC", "NYC"),
        Remote("Q@BOS", "Q", "BOS"),
    ]
    for one in (*found, Alias("A", "Q@NYC"), None):
        remotes.add(one)
    assert list(remotes.referred()) == ["NYC", "BOS"]
    assert list(remotes.of("NYC")) == ["Q@NYC", ":p@NYC"]
    for one in (*found[:2], Alias("A", "Q@NYC"), None):
        remotes.remove(one)
    assert list(remotes.referred()) == ["BOS"]
    assert list(remotes.of("NYC")) == []


def test_oldest_alias_of_a_target_is_found_until_none_is_left() -> None:
    aliases = NameIndex(target_of)
    for name in ("A", "B"):
        aliases.add(Alias(name, "Q"))
    assert aliases.first_of("Q") == "A"
    aliases.remove(Alias("A", "Q"))
    assert aliases.first_of("Q") == "B"
    aliases.remove(Alias("B", "Q"))
    assert aliases.first_of("Q") is None
    assert not aliases


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the queue managers whose link was looked up."""
    looked_up: list[str] = []
    link_to = route.link_to

    def counted(catalogue: object, manager: str) -> object:
        looked_up.append(manager)
        return link_to(catalogue, manager)  # type: ignore[arg-type]

    monkeypatch.setattr(route, "link_to", counted)
    return looked_up


def test_deleting_a_link_takes_a_look_at_each_queue_manager(app: Client, looks: list[str]) -> None:
    """An earlier version looked up the link of each remote queue, even for other links."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:7470"], "stopped": True})
    app.ask(m.LinkCreate, "BOS", {"addresses": ["bos:7470"], "stopped": True})
    for number in range(QUEUES):
        app.ask(m.QueueCreate, f"Q{number}@NYC")
    app.ask(m.QueueCreate, "Q@BOS")
    looks.clear()
    assert app.code_of(m.LinkDelete, "BOS", False) == ErrorCode.QUEUE_IN_USE
    assert app.code_of(m.LinkDelete, "NYC", False) == ErrorCode.QUEUE_IN_USE
    assert len(looks) <= 4
    app.ask(m.QueueDelete, "Q@BOS", False)
    app.ask(m.LinkDelete, "BOS", False)
    assert len(looks) < QUEUES // 10
