"""The room of a turn, as the requests of the turn find it."""

import pytest

from qmgr_config.model import Config, LimitsConfig, StoreConfig
from qmgr_protocol.errors import RequestError
from qmgrd.core.context.context import Context
from qmgrd.core.layout.kv import Now, Space
from qmgrd.core.puts.store_room import StoreRoom
from qmgrd.store.lmdb_store import LmdbStore
from tests.memory_store import MemoryStore

MIB = 1 << 20
CONFIG = Config(store=StoreConfig(map_bytes=100 * MIB), limits=LimitsConfig(turn_rows=1_000))


def divided(*spaces: Space) -> Context:
    context = Context(CONFIG, "QM1", b"S" * 16, 1)
    room = StoreRoom(context)
    for number, space in enumerate(spaces):
        context.now = Now(number, number)
        store = MemoryStore()
        store.space = lambda space=space: space  # type: ignore[method-assign, misc]
        room.divide(store)
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


class LookedAt(MemoryStore):
    """A store in memory that counts the looks at its free space."""

    look_ms = LmdbStore.look_ms

    def __init__(self) -> None:
        super().__init__()
        self.map_bytes = 1_000 * MIB
        self.used_bytes = 0
        self.looks = 0

    def space(self) -> Space:
        self.looks += 1
        return super().space()._replace(used_bytes=self.used_bytes)


class Turning:
    """Turns that only divide the free space of a store."""

    def __init__(self, **sizes: int) -> None:
        self.store = LookedAt()
        for name, size in sizes.items():
            setattr(self.store, name, size)
        self.context = Context(CONFIG, "QM1", b"S" * 16, 1)
        self._room = StoreRoom(self.context)
        self._ms = 0

    def turn(self, *, rows: int = 1, put_bytes: int = 0, ms: int = 0) -> int:
        """Runs a turn; returns the number of looks so far."""
        self._ms += ms
        self.context.now = Now(self._ms, self._ms)
        self.context.tx = self.store.begin()
        self._room.divide(self.store)
        self.store.rows_used = rows
        self.context.take_room(put_bytes)
        self._room.end_turn()
        return self.store.looks


def test_look_that_finds_plenty_serves_turns_for_a_short_time() -> None:
    turns = Turning()
    looks = [turns.turn(ms=1) for _ in range(2 * LmdbStore.look_ms)]
    assert looks == [1] * LmdbStore.look_ms + [2] * LmdbStore.look_ms


def test_turns_between_two_looks_use_no_more_rows_than_the_longest_turn() -> None:
    turns, rows_max = Turning(), CONFIG.limits.turn_rows
    assert [turns.turn(rows=rows_max // 4) for _ in range(5)] == [1, 1, 1, 1, 2]


def test_turns_between_two_looks_use_no_more_bytes_than_the_longest_turn() -> None:
    turns, bytes_max = Turning(), CONFIG.limits.turn_bytes
    assert [turns.turn(put_bytes=bytes_max // 4) for _ in range(5)] == [1, 1, 1, 1, 2]


def test_turns_between_two_looks_share_their_room() -> None:
    turns = Turning()
    turns.turn(put_bytes=1_000)
    room_bytes, operator_bytes = turns.context.room_bytes, turns.context.operator_bytes
    turns.turn(put_bytes=500)
    assert turns.context.room_bytes == room_bytes - 500
    assert turns.context.operator_bytes == operator_bytes - 500


# For two turns: 1_000 rows with 16 pages each, and twice 4 MiB. Puts stop at 800 MiB.
PLENTY_BYTES = 2 * (1_000 * 16 * 4_096 + 2 * 4 * MIB)


@pytest.mark.parametrize(
    ("name", "size", "looks"),
    [
        ("used_bytes", 800 * MIB - PLENTY_BYTES, 1),
        ("used_bytes", 800 * MIB - PLENTY_BYTES + 1, 2),
        ("disk_free_bytes", 256 * MIB + PLENTY_BYTES, 1),
        ("disk_free_bytes", 256 * MIB + PLENTY_BYTES - 1, 2),
    ],
)
def test_store_or_disk_without_plenty_is_looked_at_in_each_turn(
    name: str, size: int, looks: int
) -> None:
    turns = Turning(**{name: size})
    turns.turn()
    assert turns.turn() == looks


def test_full_disk_is_found_by_the_next_look() -> None:
    turns = Turning()
    turns.turn()
    turns.store.disk_free_bytes = 0
    with pytest.raises(RequestError, match="the disk has 0 bytes free"):
        turns.turn(put_bytes=1, ms=LmdbStore.look_ms)
