"""Tests that damage to a closed store is reported once, with its kind, and valid stores pass."""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.journal import FILE
from qmgrd.store.lmdb_store import LOCK_FILE
from qmgrd.store.offline import StoreInUse
from qmgrd.verify.content import store_content
from qmgrd.verify.verify import verify
from tests.disk_stores import disk_store
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.shot import Camera, managed
from tests.qmgrd.snapshot.stores import flip, put, ready


def test_sound_store_has_no_findings(sound: Path) -> None:
    before = sha256((sound / "store/data.mdb").read_bytes()).digest()
    listing = sorted(path.name for path in sound.rglob("*"))
    verdict = verify(sound)
    assert verdict.findings.kept == []
    assert (verdict.queue_manager, verdict.messages, verdict.set_aside) == ("QM1", 20, 0)
    assert sha256((sound / "store/data.mdb").read_bytes()).digest() == before
    assert sorted(path.name for path in sound.rglob("*")) == listing


def test_message_that_was_set_aside_before_is_counted_and_no_finding(store: Path) -> None:
    stores.change(store, flip(ready(), -20))
    with managed(store) as manager:
        assert len(manager.connect().get("Q", 100)) == 6
        manager.restart()
    verdict = verify(store)
    assert verdict.findings.kept == []
    # the damaged message, a lost non-persistent message, and the event that reports the damage
    assert (verdict.messages, verdict.set_aside) == (20 - 2 + 1, 1)


def killed(directory: Path) -> Path:
    """Returns the data directory of a daemon that was killed with turns only in its journal."""
    with managed(directory / "qm") as manager:
        stores.fill(manager)
        return Path(shutil.copytree(directory / "qm", directory / "killed"))


def test_turns_in_the_journal_are_verified_and_stored(tmp_path: Path) -> None:
    store = killed(tmp_path)
    with managed(tmp_path / "clean") as manager:
        stores.fill(manager)
    expected = verify(tmp_path / "clean")
    for _ in range(2):
        verdict = verify(store)
        assert verdict.findings.kept == []
        assert (verdict.messages, verdict.rows) == (expected.messages, expected.rows)


def lose(store: Path) -> None:
    (store / "store" / FILE).unlink()


def damage(store: Path) -> None:
    with (store / "store" / FILE).open("r+b") as file:
        file.write(b"?")


def damage_the_checkpoint(store: Path) -> None:
    stores.change(store, flip(keys.CHECKPOINT))


@pytest.mark.parametrize("harm", [lose, damage, damage_the_checkpoint])
def test_journal_that_cannot_be_read_is_a_finding(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    store = killed(tmp_path)
    harm(store)
    verdict = verify(store)
    assert ("journal", keys.CHECKPOINT) in stores.faults(verdict)
    with pytest.raises(StoreUnreadable, match=r"journal|checkpoint"):
        store_content(store)


@pytest.mark.parametrize("at", [40, 100, 5_000])
def test_pages_that_are_damaged_are_found_without_lmdb(store: Path, at: int) -> None:
    data = store / "store/data.mdb"
    with data.open("r+b") as file:
        for number in range(2, data.stat().st_size // 4096):  # all but the meta pages
            file.seek(number * 4096)
            file.write(os.urandom(at % 64 + 8))
    verdict = verify(store)
    assert not verdict.is_read
    assert verdict.findings.counts["pages"]
    assert set(verdict.findings.counts) <= {"pages", "leak"}


def test_snapshot_is_held_against_its_manifest(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        stores.fill(manager)
        Camera(manager).take(tmp_path / "shot")
    assert verify(tmp_path / "shot").findings.kept == []
    manifest = tmp_path / "shot/manifest.json"
    said = json.loads(manifest.read_text())
    wrong: list[object] = [said | {"messages": 99}, {}, []]
    for changed in wrong:
        manifest.write_text(json.dumps(changed))
        assert stores.faults(verify(tmp_path / "shot")) == [("manifest", b"")]
    manifest.write_text(json.dumps(said))
    with (tmp_path / "shot/data.mdb").open("ab") as file:
        file.write(bytes(4096))
    assert ("manifest", b"") in stores.faults(verify(tmp_path / "shot"))


def test_copy_of_the_data_file_alone_can_be_verified(sound: Path, tmp_path: Path) -> None:
    shutil.copy(sound / "store/data.mdb", tmp_path / "data.mdb")
    assert verify(tmp_path).messages == 20
    assert verify(sound / "store").messages == 20


def test_store_in_use_is_refused(store: Path) -> None:
    daemon = disk_store(store, 1 << 30)
    for directory in (store, store / "store"):
        with pytest.raises(StoreInUse, match=f"is using {store} .process {os.getpid()}."):
            verify(directory)
    daemon.close()
    assert verify(store).findings.kept == []


def test_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match="no store found"):
        verify(tmp_path)
    (tmp_path / "data.mdb").write_bytes(b"x" * 10_000)
    with pytest.raises(StoreUnreadable, match="not a qmgrd store"):
        verify(tmp_path)
    empty = tmp_path / "empty"
    disk_store(empty, 1 << 30).close()
    assert (empty / LOCK_FILE).exists()
    with pytest.raises(StoreUnreadable, match="the store row is missing"):
        verify(empty)


def test_store_of_another_format_is_refused(store: Path) -> None:
    row = keys.STORE_ROW.pack(b"S" * 16, keys.FORMAT + 1, 1) + b"QM1"
    stores.change(store, put(keys.STORE, rows.seal(keys.STORE, row)))
    with pytest.raises(StoreUnreadable, match=f"store format {keys.FORMAT + 1}"):
        verify(store)


def test_progress_is_reported_up_to_the_end(sound: Path) -> None:
    stages: list[tuple[str, int]] = []
    seen: list[int] = []

    def begin(stage: str, count: int) -> object:
        stages.append((stage, count))
        return seen.append

    verdict = verify(sound, begin)  # type: ignore[arg-type]
    assert [stage for stage, _ in stages] == ["pages", "rows"]
    assert 0.8 * verdict.rows <= sum(seen) <= 1.2 * verdict.rows
