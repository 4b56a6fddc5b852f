"""E31: the conversations have the same answers if the journal is on a real server.

Each start of the queue manager in a conversation is the takeover of another member.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.qmgrd.core import harness
from tests.qmgrd.engine.server_store import ServerStore
from tests.sim.test_shared_store import CONVERSATIONS
from tests.test_conversations import PLAYERS, replay

NUMBERS = itertools.count(1)


@pytest.fixture
def stores(
    journal_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[ServerStore]]:
    """The stores of all queue managers that a test starts, which are on the server."""
    found: list[ServerStore] = []

    def new_store() -> ServerStore:
        number = next(NUMBERS)
        found.append(ServerStore(journal_url, tmp_path / str(number), f"QM{number}"))
        return found[-1]

    monkeypatch.setattr(harness, "MemoryStore", new_store)
    yield found
    for store in found:
        store.close()


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_conversations_have_the_same_answers(stores: list[ServerStore], path: Path) -> None:
    text = path.read_text()
    assert replay(text, PLAYERS[path.parent.name]()) == text
    assert stores
