"""Tests of snapshots that contradict their manifest."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qmgrd.snapshot.manifest import CHECKSUM, checksum
from qmgrd.verify.verify import verify
from tests.qmgrd.snapshot.shot import Camera, managed


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a valid snapshot."""
    directory = tmp_path_factory.mktemp("taken")
    with managed(directory / "qm") as manager:
        from qmgr_protocol import messages as m

        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put("Q", b"one", b"two")
        Camera(manager).take(directory / "snap")
    return directory / "snap"


def found(directory: Path) -> list[str]:
    return [f"{one.fault}: {one.what}" for one in verify(directory).findings.kept]


def changed(taken: Path, tmp_path: Path, **facts: Any) -> Path:
    """Returns a copy whose manifest is changed but has a valid checksum."""
    copy = Path(shutil.copytree(taken, tmp_path / "copy"))
    manifest = {**json.loads((copy / "manifest.json").read_text()), **facts}
    manifest[CHECKSUM] = checksum(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return copy


def test_valid_snapshot_matches_its_manifest(taken: Path) -> None:
    assert found(taken) == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("messages", 3, "messages: the store has 2, the manifest has 3"),
        ("turn", 99, "turn: the store has "),
        ("queues", [], "queues: the store has [{'queue': 'Q', "),
        ("links", [{"link": "X"}], "links: the store has [], the manifest has [{'link': 'X'}]"),
    ],
)
def test_count_that_is_wrong_is_found(
    taken: Path, tmp_path: Path, name: str, value: Any, text: str
) -> None:
    (fault,) = found(changed(taken, tmp_path, **{name: value}))
    assert fault.startswith(f"manifest: {text}")


def test_position_that_is_wrong_is_found(taken: Path, tmp_path: Path) -> None:
    queues = json.loads((taken / "manifest.json").read_text())["queues"]
    queues[0]["last_arrival"] += 1
    (fault,) = found(changed(taken, tmp_path, queues=queues))
    assert fault.startswith("manifest: queues: the store has {'queue': 'Q', ")


def test_facts_of_a_later_version_and_missing_ones_are_no_fault(
    taken: Path, tmp_path: Path
) -> None:
    copy = changed(taken, tmp_path, invented_later=1)
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["links"], manifest["inboxes"]
    manifest[CHECKSUM] = checksum(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert found(copy) == []


def test_manifest_that_cannot_be_read_is_found(taken: Path, tmp_path: Path) -> None:
    copy = changed(taken, tmp_path)
    (copy / "manifest.json").write_text("{")
    (fault,) = found(copy)
    assert "manifest.json cannot be read: JSONDecodeError" in fault
