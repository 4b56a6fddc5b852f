"""Tests of the rows that operations may add. A full store must survive all operations."""

import shutil
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import OPERATIONS as ALL
from qmgr_protocol.operation import Growth, Role
from qmgrd.core.growth import GROWING, GROWTH
from qmgrd.core.limits.room import put_limit_bytes
from qmgrd.verify.verify import verify
from tests.disk_stores import disk_store
from tests.growing import FILLING, LIMITS, REQUESTS, grouped, heavy, prepare
from tests.qmgr_protocol.golden import MESSAGES
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.unit_of_work import UnitOfWork

MAP_BYTES = 16 << 20  # the smallest map that is shown to survive all operations
ATTEMPTS = 5_000
# number of operations of each kind; operations that rewrite rows must never fill the store
OPERATIONS = 100
PEER = b"P" * 16
DIALLER = {found.kind: found.dialler for found in ALL.values()}


def test_each_operation_that_may_grow_the_store_has_a_filler() -> None:
    assert set(REQUESTS) == FILLING - {m.Put, m.UnitCommit}
    assert set(REQUESTS) >= GROWING


class Small:
    """A manager with a small map that is nearly full."""

    def __init__(self, directory: Path) -> None:
        store = {"map_bytes": MAP_BYTES, "free_disk_min_bytes": 0}
        self.manager = Manager(disk_store(directory, MAP_BYTES), store=store)

        self.is_closed = False

    def prepare(self) -> None:
        """Fills the store almost completely."""
        app = self.manager.connect()
        prepare(app.ask)
        assert app.put_records("GROUPED", grouped(1)) == []
        number = 0
        for count in (50, 3):
            while not app.put_records("Q", *[heavy(number + i, 2_500) for i in range(count)]):
                number += count

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.manager.store.abort()
            self.manager.store.close()

    @property
    def used_bytes(self) -> int:
        used: int = self.manager.store.space().used_bytes
        return used

    def fill(self, kind: type[Any]) -> set[ErrorCode]:
        """Makes requests of a kind until one reaches a limit; returns the codes of the errors."""
        client, codes = self.manager.connect(), set[ErrorCode]()
        for number in range(ATTEMPTS if GROWTH[kind] is not Growth.OPERATES else OPERATIONS):
            if number % 50 == 49:  # The number of streams per connection is limited.
                client.hang_up()
                client = self.manager.connect()
            if (code := self.try_(client, kind, number)) is not None:
                codes.add(code)
            if code in LIMITS:
                break
        return codes

    def try_(self, client: Client, kind: type[Any], number: int) -> ErrorCode | None:
        """Makes the request with that number; returns its error code, or None."""
        try:
            if kind is m.Put:
                refused = client.put_records("Q", heavy(number, 10))
                return refused[0].code if refused else None
            if kind is m.UnitCommit:
                unit = UnitOfWork(client, number + 1)
                codes = unit.put_records("Q", heavy(number, 10)) or unit.commit()
                return codes[0] if codes else None
            if kind is m.LinkOpen:
                client = self.manager.connect("PEER", "queue-manager", PEER)
            client.ask(kind, *REQUESTS[kind](number))
        except RequestError as error:
            return ErrorCode(error.code)
        return None

    def ask_everything(self) -> None:
        """Makes all possible requests. Each is answered, is refused, or ends its connection."""
        for message in MESSAGES.values():
            if type(message) in GROWTH:
                role = "queue-manager" if DIALLER[type(message)] is Role.QUEUE_MANAGER else "client"
                self.manager.connect("PEER", role, PEER).say(message)
        self.manager.rest()

    def drain(self) -> None:
        """Consumes all messages."""
        app = self.manager.connect()
        while found := app.get("Q", 1_000):
            assert app.ack(*found) == []
        self.manager.rest()


@pytest.fixture(scope="module")
def nearly_full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("full") / "data"
    small = Small(directory)
    small.prepare()
    small.close()
    return directory


@pytest.fixture
def small(nearly_full: Path, tmp_path: Path) -> Iterator[Small]:
    shutil.copytree(nearly_full, tmp_path / "data")
    small = Small(tmp_path / "data")
    yield small
    small.close()


def survives(small: Small) -> None:
    """Checks that a full store serves every request, and can be emptied and used again."""
    small.ask_everything()
    small.manager.crash()
    small.drain()
    small.manager.restart()
    assert small.used_bytes < put_limit_bytes(small.manager.config.store) // 4
    assert small.manager.connect().put_records("Q", record(b"again")) == []
    small.close()
    assert not verify(small.manager.store.directory).findings.kept


def name_of(kind: type[Any]) -> str:
    return kind.__name__


def in_order(kinds: AbstractSet[type[Any]]) -> list[type[Any]]:
    return sorted(kinds, key=name_of)


@pytest.mark.slow
@pytest.mark.parametrize("kind", in_order(FILLING), ids=name_of)
def test_store_that_one_operation_fills_survives(kind: type[Any], small: Small) -> None:
    codes = small.fill(kind)
    if GROWTH[kind] is not Growth.OPERATES:
        assert codes & LIMITS
    mark = put_limit_bytes(small.manager.config.store)
    assert small.used_bytes < mark + (MAP_BYTES - mark) // 2
    survives(small)


def test_store_that_all_operations_fill_one_after_the_other_survives(small: Small) -> None:
    kinds: list[type[Any]] = [m.Put, *in_order(GROWING), m.Put, m.UnitCommit]
    for kind in kinds:
        small.fill(kind)
    mark = put_limit_bytes(small.manager.config.store)
    assert mark - 50_000 < small.used_bytes < mark + (MAP_BYTES - mark) * 3 // 4
    survives(small)
