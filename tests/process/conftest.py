"""Fixtures for the tests of real processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.process.daemon import Daemon

Make: TypeAlias = Callable[..., Daemon]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Yields a function that creates daemons, which end when the test ends."""
    made: list[Daemon] = []

    def make(name: str = "data", **sections: dict[str, Any]) -> Daemon:
        daemon = Daemon(tmp_path / name, **sections)
        made.append(daemon)
        return daemon

    yield make
    for daemon in made:
        daemon.close()
