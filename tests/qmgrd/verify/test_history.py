"""Tests that any damage to history is found, and that valid rows are not reported."""

from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgrd.core.layout import keys
from qmgrd.verify.verify import verify
from tests.qmgrd.snapshot.shot import managed
from tests.qmgrd.snapshot.stores import Change, change, delete, faults, flip, put_sealed

DAMAGES: list[tuple[Change, str]] = [
    (flip(keys.HISTORY), "seal"),
    (flip(keys.history(3)), "seal"),
    (delete(keys.history(4)), "history"),
    (delete(keys.HISTORY), "history"),
    (put_sealed(keys.history(9), b"x"), "history"),
    (put_sealed(keys.history(4), b"no row of history"), "seal"),
    (put_sealed(keys.SPACE_CURSOR + b"LAKE", pack({"position": 99})), "history"),
    (put_sealed(keys.SPACE_CURSOR + b"LAKE", pack({})), "content"),
    (put_sealed(keys.HISTORY, keys.HISTORY_ROW.pack(1, 4, 99, 0)), "history"),
    (put_sealed(keys.HISTORY, keys.HISTORY_ROW.pack(2, 8, 99, 0)), "history"),
    (put_sealed(keys.HISTORY, keys.HISTORY_ROW.pack(1, 2**40, 99, 0)), "history"),
    (put_sealed(keys.HISTORY, b"short"), "seal"),
    (put_sealed(keys.history(0), b"x"), "history"),
    (put_sealed(keys.history(2**64 - 1), b"x"), "history"),
    (put_sealed(keys.SPACE_CURSOR + b"\xff", pack({"position": 99})), "history"),
    (put_sealed(keys.SPACE_CURSOR + b"LAKE", pack([])), "content"),
    (put_sealed(keys.SPACE_CURSOR + b"LAKE", b"\xc1"), "content"),
    (flip(keys.SPACE_CURSOR), "seal"),
]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Returns a store with history and a cursor."""
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q", {"accounting": "on"})
        for _ in range(5):
            app.put("Q", b"x")
        app.ask(m.CursorCommit, "LAKE", 2)
        manager.restart()
    return tmp_path / "qm"


def test_sound_history_is_sound(kept: Path) -> None:
    assert faults(verify(kept)) == []


@pytest.mark.parametrize(("damage", "fault"), DAMAGES)
def test_damage_is_found(kept: Path, damage: Change, fault: str) -> None:
    change(kept, damage)
    assert fault in dict(faults(verify(kept)))
