"""Histories that are wrong on purpose are found, in worlds where all keep accounts."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qmgr_protocol import history
from qmgrd.core.jobs import drop
from qmgrd.core.queue import journal
from qmgrd.core.queue.journal import Account, Journal
from qmgrd.core.queue.queue import Queue
from qmgrd.core.requests import history as history_admin
from tests.sim import accounts
from tests.sim.chance import Chance
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
    """Yield the laws that seeds break, one after the other."""
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
def test_history_says_what_is_there_whatever_happens(kind: World_, seed: int) -> None:
    world = kind(seed, steps=1_500)
    world.run()
    assert world.watch.happened["events"] > 100


def without(kind: int) -> Callable[..., None]:
    """Return what keeps no event of that *kind*."""
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
def test_event_that_is_not_kept_is_found(monkeypatch: Patch, kind: int) -> None:
    first = 19 if kind == history.DAMAGED else 0
    monkeypatch.setattr(Account, "entry", without(kind))
    assert_caught("accounts_are_true", "accounts_are_possible", first=first)


@pytest.mark.long
def test_move_that_is_not_kept_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Account, "entry", without(history.MOVED))
    assert_caught("accounts_are_true", steps=4_000, first=15)


def test_deletion_that_keeps_no_accounts_is_found(monkeypatch: Patch) -> None:
    facts_of = drop.facts_of
    monkeypatch.setattr(drop, "facts_of", lambda queue: facts_of(queue) | {"accounts": False})
    monkeypatch.setattr(accounts, "ALTERED", 0)
    assert_caught("accounts_are_true", kind=TopicWorld)


@pytest.mark.parametrize("kind", [history.PARKED, history.REPUBLISHED])
def test_event_of_a_publication_that_is_not_kept_is_found(monkeypatch: Patch, kind: int) -> None:
    monkeypatch.setattr(Account, "entry", without(kind))
    assert_caught("accounts_are_true", "accounts_are_possible", kind=TopicWorld)


def test_fast_put_that_is_not_kept_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Account, "put", lambda *arguments: None)
    assert_caught("accounts_are_true")


def test_delivery_that_is_not_kept_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Account, "delivered", lambda *arguments: None)
    assert_caught("accounts_are_true", "accounts_are_possible")


def test_settle_that_is_kept_twice_is_found(monkeypatch: Patch) -> None:
    settled = Account.settled

    def twice(self: Account, leases: Any) -> None:
        settled(self, leases)
        settled(self, leases[:1])

    monkeypatch.setattr(Account, "settled", twice)
    assert_caught("accounts_are_true")


def test_priority_that_is_another_one_is_found(monkeypatch: Patch) -> None:
    entry = Account.entry

    def wrong(self: Account, kind: int, key: bytes, *rest: Any, **more: Any) -> None:
        if kind == history.RETURNED:
            key = key[:6] + bytes([9 - key[6]]) + key[7:]
        entry(self, kind, key, *rest, **more)

    monkeypatch.setattr(Account, "entry", wrong)
    assert_caught("accounts_agree")


def test_history_that_is_stored_a_turn_late_is_found(monkeypatch: Patch) -> None:
    """A crash between the two loses it."""
    write, waiting = Journal.write, dict[int, Any]()

    def late(self: Journal, context: Any) -> None:
        now, self._pending = self._pending, waiting.pop(id(self), [])
        write(self, context)
        waiting[id(self)] = now

    monkeypatch.setattr(Journal, "write", late)
    assert_caught("accounts_are_true")


def test_row_that_is_written_over_is_found(monkeypatch: Patch) -> None:
    write = Journal.write

    def over(self: Journal, context: Any) -> None:
        if self.next % 50 == 49:
            self.next -= 1
        write(self, context)

    monkeypatch.setattr(Journal, "write", over)
    assert_caught("rows_are_in_line")


def test_trim_of_one_too_many_is_found(monkeypatch: Patch) -> None:
    wanted_from = Journal._wanted_from
    monkeypatch.setattr(Journal, "_wanted_from", lambda self: wanted_from(self) + 1)
    assert_caught("rows_are_kept")


def test_trim_that_looks_at_the_fastest_cursor_is_found(monkeypatch: Patch) -> None:
    """With one cursor only there is no difference; so another is made that stands still."""
    populate = accounts.populate

    def with_another(world: Chance) -> None:
        populate(world)
        for node in world.nodes.values():
            cursors = node.turns.broker.context.journal.cursors
            cursors["IDLE"] = journal.Cursor(0, 1)

    def fastest(self: Journal) -> int:
        return max((one.position for one in self.cursors.values()), default=self.first - 1) + 1

    monkeypatch.setattr(accounts, "populate", with_another)
    monkeypatch.setattr(Journal, "_wanted_from", fastest)
    assert_caught("rows_are_kept", "exported_once")


@pytest.mark.long
def test_cursor_that_goes_back_is_found(monkeypatch: Patch) -> None:
    """A commit that comes again moves it to an older position."""
    monkeypatch.setattr(history_admin, "max", lambda _, asked_for: asked_for, raising=False)
    assert_caught("rows_are_kept", "exported_once", first=13)


def test_cursor_that_is_not_stored_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Journal, "store_cursor", lambda self, context, name: None)
    assert_caught("rows_are_kept", "exported_once")


def test_page_that_leaves_out_a_row_is_found(monkeypatch: Patch) -> None:
    read = Journal.read

    def hasty(self: Journal, *arguments: Any) -> Iterator[Any]:
        for row in read(self, *arguments):
            if row.seq % 11:
                yield row

    monkeypatch.setattr(Journal, "read", hasty)
    assert_caught("exported_once")


@pytest.mark.long
def test_message_told_as_transferred_that_expired_is_found(monkeypatch: Patch) -> None:
    entry = Account.entry

    def all_went(self: Account, kind: int, key: bytes, found: Any, **more: Any) -> None:
        if more.get("peer") and kind in (history.EXPIRED, history.LOST):
            kind = history.TRANSFERRED
        entry(self, kind, key, found, **more)

    monkeypatch.setattr(Account, "entry", all_went)
    assert_caught("transferred_has_come", kind=World, steps=4_000, first=79)


def test_publication_that_goes_untold_is_found(monkeypatch: Patch) -> None:
    happened = Queue.happened

    def forgetful(self: Queue, kind: int, *rest: Any, **more: Any) -> None:
        if not (self.is_publications and kind == history.SETTLED):
            happened(self, kind, *rest, **more)

    monkeypatch.setattr(Queue, "happened", forgetful)
    assert_caught("accounts_are_true", kind=TopicWorld)
