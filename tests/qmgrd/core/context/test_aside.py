"""Tests that items set aside survive restarts, are limited in number, and can be restored."""

from collections.abc import Callable

import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.broker import Broker
from qmgrd.core.context import aside
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.limits.work import WorkId
from tests.qmgrd.core.harness import AnyStore, Manager

KEY = keys.SPACE_TOPIC + b"flights"


def do(manager: Manager, call: Callable[[Broker], object]) -> None:
    """Runs *call* in a turn."""

    def made(broker: Broker) -> None:
        call(broker)

    manager.turns.intake.event(0, made)
    manager.turn()


def items(manager: Manager) -> list[aside.Item]:
    return list(manager.turns.broker.context.aside.items.values())


def add(manager: Manager, work: WorkId, row: bytes = b"") -> None:
    do(manager, lambda x: x.context.aside.add(x.context, work, "a thing", "a test", row))


def test_work_stays_set_aside_over_restarts_and_is_reported(store: AnyStore) -> None:
    manager = Manager(store)
    add(manager, WorkId("link", "NYC"))
    (note,) = manager.last.notes
    assert (note.event, note.facts["what"], note.facts["why"]) == ("set aside", "a thing", "a test")
    manager.crash()
    (item,) = items(manager)
    assert (item.number, item.work, item.what) == (1, WorkId("link", "NYC"), "a thing")
    assert not manager.turns.broker.context.begin_work("link", "NYC")
    assert manager.turns.broker.context.begin_work("link", "SFO")
    manager.store.abort()
    if not hasattr(store, "rows"):
        manager.store.close()


def test_work_set_aside_twice_is_one_item_but_no_row_is_lost() -> None:
    manager = Manager()
    for _ in range(2):
        add(manager, WorkId("events"))
        add(manager, WorkId("row", KEY), b"row")
    assert [item.work.kind for item in items(manager)] == ["events", "row", "row"]


def test_row_is_set_aside_and_restored() -> None:
    manager = Manager()
    do(manager, lambda x: rows.put(x.context.tx, KEY, b"row"))
    do(manager, lambda x: x.context.aside.move(x.context, "row", KEY, "a test"))
    assert manager.scan(KEY) == []
    do(manager, lambda x: x.context.aside.restore(x.context, 1))
    assert manager.scan(KEY) == [(KEY, rows.seal(KEY, b"row"))]
    assert items(manager) == []


def test_row_is_not_restored_over_another() -> None:
    manager = Manager()
    add(manager, WorkId("row", KEY), b"old")
    do(manager, lambda x: rows.put(x.context.tx, KEY, b"new"))
    with pytest.raises(RequestError, match="exists again"):
        manager.turns.broker.context.aside.restore(manager.turns.broker.context, 1)
    assert len(items(manager)) == 1


def test_oldest_item_beyond_the_limit_is_forgotten_and_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aside, "ITEMS_MAX", 3)
    manager = Manager()
    for number in range(5):
        add(manager, WorkId("job", number))
    assert [item.number for item in items(manager)] == [3, 4, 5]
    assert manager.last.notes[-1].facts["number"] == 2
    manager.crash()
    assert [item.number for item in items(manager)] == [3, 4, 5]


def test_missing_item_is_refused() -> None:
    with pytest.raises(RequestError, match="item 7 is not set aside") as caught:
        Manager().turns.broker.context.aside.find(7)
    assert caught.value.code is ErrorCode.ASIDE_UNKNOWN


def test_unreadable_item_is_deleted_and_the_start_continues() -> None:
    manager = Manager()
    tx = manager.store.begin()
    rows.put(tx, keys.aside(1), b"\xc0")
    manager.store.commit()
    manager.crash()
    assert items(manager) == []
    assert "unreadable" in manager.turns.notes[0].event


def test_damage_of_the_store_is_not_set_aside() -> None:
    manager = Manager()
    context = manager.turns.broker.context
    with pytest.raises(rows.RowDamaged), context.aside.guard(context, KEY):
        raise rows.RowDamaged("a row")
