"""Journals for tests. Creating a database takes long, so most tests share one."""

from collections.abc import Iterator
from itertools import count

import pytest

from qmgrd.engine import fence
from tests.postgres import Postgres, unavailable
from tests.qmgrd.engine.journals import Journal

_NUMBERS = count(1)


@pytest.fixture(autouse=True)
def epochs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets epochs be 1, 2, 3, ..."""
    monkeypatch.setattr(fence, "EPOCH_STEPS", 1)


@pytest.fixture(scope="session")
def journals_url(postgres: Postgres) -> str:
    """Returns the address of a database with the journals of many tests."""
    return postgres.create_database()


@pytest.fixture
def journal(journals_url: str) -> Iterator[Journal]:
    """Yields a new journal on the server that all tests share."""
    found = Journal(journals_url, f"QM{next(_NUMBERS)}")
    yield found
    found.close()


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[Postgres]:
    """Yields a server that tests may restart and whose settings they may change."""
    if reason := unavailable():
        pytest.skip(reason)
    with Postgres() as server:
        yield server


@pytest.fixture
def own_journal(own_postgres: Postgres) -> Iterator[Journal]:
    """Yields a new journal on a server that tests may restart."""
    found = Journal(own_postgres.url, f"QM{next(_NUMBERS)}")
    yield found
    found.close()
