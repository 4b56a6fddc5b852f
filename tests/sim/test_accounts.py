"""Tests that planted bugs in histories are found if all queue managers keep accounts."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qmgr_protocol import history
from qmgrd.core.jobs import drop
from qmgrd.core.queue.history import Account, Cursor, History
from qmgrd.core.queue.queue import Queue
from qmgrd.core.requests import history as history_admin
from tests.sim import accounts
from tests.sim.chance import Chance
from tests.sim.exporter import Exporter
from tests.sim.ledger import Violated
from tests.sim.net import Net
from tests.sim.topics import TopicWorld
from tests.sim.world import World

Patch = pytest.MonkeyPatch
SEEDS = 40
World_ = Callable[..., Chance]


@pytest.fixture(autouse=True)
def all_keep_accounts(monkeypatch: Patch) -> None:
    monkeypatch.setattr(accounts, "KEPT", 1.0)
    monkeypatch.setattr(accounts, "EXPORTED", 1.0)


def laws(kind: World_, steps: int, first: int) -> Iterator[str]:
    """Yields the invariants that seeds break, in order."""
    for seed in range(first, first + SEEDS):
        try:
            kind(seed, steps=steps).run()
        except Violated as violated:
            yield violated.law


def assert_caught(*wanted: str, kind: World_ = World, steps: int = 1_500, first: int = 0) -> None:
    found = []
    for law in laws(kind, steps, first):
        found.append(law)
        if law in wanted:
            return
    raise AssertionError(f"none of {wanted} was broken in {SEEDS} seeds, but {found}")


@pytest.mark.parametrize("kind", [World, Net, TopicWorld])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_history_matches_the_stored_messages_at_all_times(kind: World_, seed: int) -> None:
    world = kind(seed, steps=1_500)
    world.run()
    assert world.watch.happened["events"] > 100


def without(kind: int) -> Callable[..., None]:
    """Returns a replacement of ``Account.entry`` that omits events of *kind*."""
    entry = Account.entry

    def forgetful(self: Account, told: int, *rest: Any, **more: Any) -> None:
        if told != kind:
            entry(self, told, *rest, **more)

    return forgetful


@pytest.mark.parametrize(
    "kind",
    [
        history.RETURNED,
        history.SETTLED,
        history.EXPIRED,
        history.DEAD_LETTERED,
        history.TRANSFERRED,
        history.REMOVED,
        history.LOST,
        history.DAMAGED,
        history.AVAILABLE,
    ],
)
def test_missing_event_is_found(monkeypatch: Patch, kind: int) -> None:
    first = 19 if kind == history.DAMAGED else 0
    monkeypatch.setattr(Account, "entry", without(kind))
    assert_caught("accounts_are_true", "accounts_are_possible", first=first)


@pytest.mark.long
def test_missing_move_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Account, "entry", without(history.MOVED))
    assert_caught("accounts_are_true", steps=4_000, first=144)


def test_deletion_without_accounts_is_found(monkeypatch: Patch) -> None:
    facts_of = drop.facts_of
    monkeypatch.setattr(drop, "facts_of", lambda queue: facts_of(queue) | {"accounts": False})
    monkeypatch.setattr(accounts, "ALTERED", 0)
    assert_caught("accounts_are_true", kind=TopicWorld)


@pytest.mark.parametrize("kind", [history.PARKED, history.REPUBLISHED])
def test_missing_event_of_a_publication_is_found(monkeypatch: Patch, kind: int) -> None:
    monkeypatch.setattr(Account, "entry", without(kind))
    assert_caught("accounts_are_true", "accounts_are_possible", kind=TopicWorld)


def test_missing_fast_put_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Account, "put", lambda *arguments: None)
    assert_caught("accounts_are_true")


def test_missing_delivery_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Account, "delivered", lambda *arguments: None)
    assert_caught("accounts_are_true", "accounts_are_possible")


def test_settle_recorded_twice_is_found(monkeypatch: Patch) -> None:
    settled = Account.settled

    def twice(self: Account, client: str, leases: Any) -> None:
        settled(self, client, leases)
        settled(self, client, leases[:1])

    monkeypatch.setattr(Account, "settled", twice)
    assert_caught("accounts_are_true")


def test_wrong_priority_is_found(monkeypatch: Patch) -> None:
    entry = Account.entry

    def wrong(self: Account, kind: int, key: bytes, *rest: Any, **more: Any) -> None:
        if kind == history.RETURNED:
            key = key[:6] + bytes([9 - key[6]]) + key[7:]
        entry(self, kind, key, *rest, **more)

    monkeypatch.setattr(Account, "entry", wrong)
    assert_caught("accounts_agree")


def test_history_stored_a_turn_late_is_found(monkeypatch: Patch) -> None:
    """A crash between the two turns loses the history."""
    write, waiting = History.write, dict[int, Any]()

    def late(self: History, context: Any) -> None:
        now, self._pending = self._pending, waiting.pop(id(self), [])
        write(self, context)
        waiting[id(self)] = now

    monkeypatch.setattr(History, "write", late)
    assert_caught("accounts_are_true")


def test_overwritten_row_is_found(monkeypatch: Patch) -> None:
    write = History.write

    def over(self: History, context: Any) -> None:
        if self.next % 50 == 49:
            self.next -= 1
        write(self, context)

    monkeypatch.setattr(History, "write", over)
    assert_caught("rows_are_in_line")


def test_trim_of_one_row_too_many_is_found(monkeypatch: Patch) -> None:
    wanted_from = History._wanted_from
    monkeypatch.setattr(History, "_wanted_from", lambda self: wanted_from(self) + 1)
    assert_caught("rows_are_kept")


def test_trim_by_the_fastest_cursor_is_found(monkeypatch: Patch) -> None:
    """The test adds a cursor that never moves: with a single cursor, the bug has no effect."""
    populate = accounts.populate

    def with_another(world: Chance) -> None:
        populate(world)
        for node in world.nodes.values():
            cursors = node.turns.broker.context.history.cursors
            cursors["IDLE"] = Cursor(0, 1)

    def fastest(self: History) -> int:
        return max((one.position for one in self.cursors.values()), default=self.first - 1) + 1

    monkeypatch.setattr(accounts, "populate", with_another)
    monkeypatch.setattr(History, "_wanted_from", fastest)
    assert_caught("rows_are_kept", "exported_once")


@pytest.fixture
def crashes_late(monkeypatch: Patch) -> None:
    """Lets each export crash once at rest. Before, most exports are too slow to commit anything."""
    act, crashed = Exporter.act, set[Exporter]()

    def crash(self: Exporter, *, is_chaos: bool = True) -> None:
        if is_chaos or self in crashed or self.committed <= self.begun:
            act(self, is_chaos=is_chaos)
        else:
            crashed.add(self)
            self.crash()

    monkeypatch.setattr(Exporter, "act", crash)


@pytest.mark.usefixtures("crashes_late")
def test_export_that_crashes_late_has_each_row_once() -> None:
    world = World(1, steps=500)
    world.run()
    assert world.watch.happened["exported"] > 100


@pytest.mark.usefixtures("crashes_late")
def test_cursor_that_moves_back_is_found(monkeypatch: Patch) -> None:
    """A repeated commit moves the cursor back to an older position."""
    monkeypatch.setattr(history_admin, "max", lambda _, asked_for: asked_for, raising=False)
    assert_caught("rows_are_kept", "exported_once", steps=500)


def test_cursor_that_is_not_stored_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(History, "store_cursor", lambda self, context, name: None)
    assert_caught("rows_are_kept", "exported_once")


def test_page_without_one_of_its_rows_is_found(monkeypatch: Patch) -> None:
    read = History.read

    def hasty(self: History, *arguments: Any) -> Iterator[Any]:
        for row in read(self, *arguments):
            if row.seq % 11:
                yield row

    monkeypatch.setattr(History, "read", hasty)
    assert_caught("exported_once")


def test_expired_message_recorded_as_transferred_is_found(monkeypatch: Patch) -> None:
    entry = Account.entry

    def all_went(self: Account, kind: int, key: bytes, found: Any, **more: Any) -> None:
        if more.get("peer") and kind in (history.EXPIRED, history.LOST):
            kind = history.TRANSFERRED
        entry(self, kind, key, found, **more)

    monkeypatch.setattr(Account, "entry", all_went)
    assert_caught("transferred_has_come", kind=Net, first=9)


def test_missing_settle_of_a_publication_is_found(monkeypatch: Patch) -> None:
    happened = Queue.record_history

    def forgetful(self: Queue, kind: int, *rest: Any, **more: Any) -> None:
        if not (self.is_publications and kind == history.SETTLED):
            happened(self, kind, *rest, **more)

    monkeypatch.setattr(Queue, "record_history", forgetful)
    assert_caught("accounts_are_true", kind=TopicWorld)
