"""Managers for the tests of the core."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgrd.store.lmdb_store import LmdbStore
from tests.disk_stores import disk_store
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Manager


@pytest.fixture(params=["memory", "lmdb", "journal"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AnyStore:
    """An empty store of each kind, for tests that depend on the kind."""
    if request.param == "memory":
        return MemoryStore()
    make = LmdbStore if request.param == "lmdb" else disk_store
    return make(tmp_path, 1 << 30)


@pytest.fixture
def manager(request: pytest.FixtureRequest) -> Iterator[Manager]:
    """A manager with an empty queue Q. The store is ``store`` if the test requests that fixture."""
    asked = "store" in request.fixturenames
    manager = Manager(request.getfixturevalue("store") if asked else None)
    yield manager
    audit(manager)
    if asked and isinstance(manager.store, LmdbStore):
        manager.store.close()


@pytest.fixture
def app(manager: Manager) -> Client:
    """A client of that manager."""
    client = manager.connect("app")
    client.ask(m.QueueCreate, "Q")
    return client
