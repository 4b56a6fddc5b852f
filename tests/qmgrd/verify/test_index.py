"""Tests that any damage to index rows is found, and that valid rows are not reported."""

from contextlib import closing
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.store.image import open_image
from qmgrd.verify.verify import verify
from tests.qmgrd.core.harness import record
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.shot import managed
from tests.qmgrd.snapshot.stores import GROUP_ID, Change, delete, faults, flip, put, put_sealed

LATE = 5
CORRELATION = keys.correlation(LATE, b"c") + keys.PLACE.pack(5, 3)
GROUP = keys.group(LATE, GROUP_ID, 2)
MEMBER = keys.message(LATE, keys.LANE_GROUPED, 4, 3)
NOTE = keys.note(LATE, 2)
ASTRAY = keys.correlation(LATE, b"c") + keys.PLACE.pack(5, 99)
ON_A_LINK = keys.correlation(3, b"c") + keys.PLACE.pack(0, 1)
REMEMBERED = keys.of_queue(keys.SPACE_UID, LATE) + b"EVER" + bytes(8)

DAMAGES: list[tuple[str, bytes, Change]] = [
    ("select-missing", CORRELATION, delete(CORRELATION)),
    ("select-missing", GROUP, delete(GROUP)),
    ("select-orphan", ASTRAY, put(ASTRAY, b"")),
    ("select-missing", GROUP, put(GROUP, keys.POSITION.pack(keys.LANE_GROUPED, 5, 99))),
    ("select-orphan", ON_A_LINK, put(ON_A_LINK, b"")),
    ("note-missing", NOTE, delete(NOTE)),
    ("note-orphan", keys.note(LATE, 3), put_sealed(keys.note(LATE, 3), b"\x80")),
    ("remembered", REMEMBERED, put(REMEMBERED, keys.POSITION.pack(keys.LANE_REMEMBERED, 5, 50))),
]


@pytest.mark.parametrize(("fault", "key", "damage"), DAMAGES)
def test_damage_is_found_as_itself_and_once(
    store: Path, fault: str, key: bytes, damage: Change
) -> None:
    stores.check_found(store, fault, key, damage)


def test_damaged_message_is_not_reported_as_missing(store: Path) -> None:
    key = MEMBER
    stores.change(store, flip(key, -20))
    assert faults(verify(store)) == [("record", key)]
    key = keys.message(LATE, keys.LANE_READY, 4, 2)
    stores.change(store, put(key, b""))
    assert ("entry", key) in faults(verify(store))
    assert "note-orphan" not in verify(store).findings.counts


def test_row_of_a_message_that_needs_none_is_reported(store: Path) -> None:
    data = store / "store" / "data.mdb"
    with closing(open_image(data)) as image, image.transaction() as tx:
        value = tx.get(keys.message(1, keys.LANE_READY, 4, 4)) or b""
    trailer = entries.uid_trailer(entries.decode(value))
    row = keys.of_queue(keys.SPACE_UID, 1) + trailer
    position = keys.POSITION.pack(keys.LANE_READY, keys.PRIORITY_TOP - 4, 4)
    stores.check_found(store, "index-orphan", row, put(row, position))


def test_uid_of_what_a_restart_lost_may_be_put_again_before_it_is_swept(tmp_path: Path) -> None:
    flags = records.FLAG_NOT_PERSISTENT
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put_records("Q", *(record(b"", flags=flags) for _ in range(3_000)))
        app.put("Q", b"lost", uid=("ELSE", 5), flags=flags, correlation_id=b"v")
        manager.restart()
        manager.connect().put("Q", b"again", uid=("ELSE", 5))
        left = len(manager.scan(keys.of_queue(keys.SPACE_MESSAGE, 1)))
    verdict = verify(tmp_path / "qm")
    assert left > 2
    assert (verdict.findings.kept, verdict.messages) == ([], 1)
