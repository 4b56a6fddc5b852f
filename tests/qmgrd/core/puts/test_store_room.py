"""The room of a turn, as the requests of the turn find it."""

from qmgr_config.model import Config, LimitsConfig, StoreConfig
from qmgrd.core.context.context import Context
from qmgrd.core.layout.kv import Now, Space
from qmgrd.core.puts.store_room import StoreRoom

MIB = 1 << 20
CONFIG = Config(store=StoreConfig(map_bytes=100 * MIB), limits=LimitsConfig(turn_rows=1_000))


def divided(*spaces: Space) -> Context:
    context = Context(CONFIG, "QM1", b"S" * 16, 1)
    room = StoreRoom(context)
    for number, space in enumerate(spaces):
        context.now = Now(number, number)
        room.divide(space)
    return context


def space(used_mib: int, map_mib: int = 100) -> Space:
    return Space(used_mib * MIB, map_mib * MIB, 1_000 * MIB, 0, 0)


def test_empty_store_has_room_for_everything() -> None:
    context = divided(space(1))
    assert (context.store_full, context.operators_full) == ("", "")
    assert (context.is_cramped, context.is_small) == (False, False)
    assert (context.room_bytes, context.operator_bytes) == (79 * MIB, 89 * MIB)


def test_store_that_becomes_full_refuses_puts_and_does_less_work() -> None:
    context = divided(space(1), space(99))
    assert "raise store.map_bytes" in context.store_full
    assert "raise store.map_bytes" in context.operators_full
    assert (context.is_cramped, context.is_small) == (True, True)
    assert context.turn_rows < 1_000
    assert [note.event for note in context.outcome.notes] == ["puts are refused: no room"]


def test_marks_follow_a_map_that_grew() -> None:
    context = divided(space(85), space(85, map_mib=1_000))
    assert context.store_full == ""
    assert context.room_bytes == 715 * MIB
    assert [note.event for note in context.outcome.notes] == [
        "puts are refused: no room",
        "puts are accepted again",
    ]
