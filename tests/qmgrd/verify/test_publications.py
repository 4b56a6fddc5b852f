"""Tests that any damage to the rows of publications is found, and that valid rows pass."""

import shutil
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.layout import keys
from qmgrd.verify.content import store_content
from qmgrd.verify.definitions import SPACES
from qmgrd.verify.verify import verify
from tests.disk_stores import disk_store
from tests.qmgrd.core.harness import record
from tests.qmgrd.core.pubsub import Hub
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.stores import Change, delete, edit, faults, flip, put, put_sealed

# arrivals of publications: ready, parked, retained, and one of an ended subscription
HELD, PARKED, KEPT, ENDED = 1, 2, 3, 4
A, B = 1, 2  # queue ids


def filled(hub: Hub) -> None:
    """Creates publications in all states. One of them is not fanned out yet."""
    for name in ("A:a", "B:b"):
        hub.subscribe("t/#", name, redelivery_limit=0)
    hub.publish("t/held", b"held" * 4_000, correlation_id=b"c")
    hub.publish("t/parked", b"parked", expiry_ms=stores.DAY_MS)
    hub.publish("t/kept", b"kept", retain=True)
    for name in ("A:a", "B:b"):
        held, parked, kept = hub.get(name)
        hub.app.settle(m.RETURN, held)
        hub.app.ack(kept)
        hub.app.release(parked)
        hub.manager.rest()
    hub.app.ask(m.TopicSet, "t", {"redelivery_limit": 3})
    hub.app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    hub.subscribe("u", ":p@NYC")
    for number in range(30):
        hub.subscribe("v", f"V:{number}")
    hub.subscribe("w")  # This subscription ends with its connection.
    hub.publish("w", b"dropped")
    hub.send("v", record(b"half out"))
    hub.app.hang_up()
    hub.manager.turn()
    assert hub.manager.turns.broker.publications.is_busy


@pytest.fixture(scope="module")
def sound_topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a data directory with publications, which tests must not change."""
    directory = tmp_path_factory.mktemp("topics") / "sound"
    store = disk_store(directory, 1 << 30)
    filled(Hub(store, limits={"turn_rows": 15}))
    store.close()
    return directory


@pytest.fixture
def store(sound_topics: Path, tmp_path: Path) -> Path:
    """Returns a data directory that a test may damage."""
    return Path(shutil.copytree(sound_topics, tmp_path / "store"))


def count(number: int) -> bytes:
    return number.to_bytes(4, "big")


HOLDERS, INDEX, RETAINED = keys.reference_count(HELD), keys.parked(PARKED, A), keys.SPACE_RETAINED
NOBODY = keys.parked(HELD, A)
DAMAGES: list[tuple[str, bytes, Change]] = [
    ("holders", HOLDERS, put_sealed(HOLDERS, count(1))),
    ("holders", HOLDERS, put_sealed(HOLDERS, count(3))),
    ("holders", HOLDERS, delete(HOLDERS)),
    ("holders", keys.reference_count(99), put_sealed(keys.reference_count(99), count(1))),
    ("seal", HOLDERS, flip(HOLDERS)),
    ("parked", INDEX, delete(INDEX)),
    ("parked", INDEX, put(INDEX, b"\0")),
    ("parked", NOBODY, put(NOBODY, b"\5")),
    ("content", keys.SPACE_TOPIC, edit(keys.SPACE_TOPIC, lambda row: b"\x07")),
]


@pytest.mark.parametrize(("fault", "key", "damage"), DAMAGES)
def test_damage_is_found_as_itself(store: Path, fault: str, key: bytes, damage: Change) -> None:
    stores.change(store, damage)
    found = verify(store).findings.kept
    assert any(one.fault == fault and one.key.startswith(key) and one.what for one in found)
    assert {one.fault for one in found} <= {fault, "holders"}


def test_topic_with_a_missing_retained_publication_is_found(store: Path) -> None:
    """The number of holders of the retained publication is then wrong as well."""
    stores.change(store, edit(RETAINED, lambda row: (99).to_bytes(8, "big")))
    found = faults(verify(store))
    assert ("retained", RETAINED + b"t/kept") in found
    assert ("holders", keys.reference_count(KEPT)) in found


def test_missing_publication_is_found_by_its_holders(store: Path) -> None:
    stores.change(store, delete(keys.publication(PARKED)))
    found = {fault for fault, _ in faults(verify(store))}
    assert {"holders", "record"} & found


def test_sound_store_is_sound_and_counted(sound_topics: Path) -> None:
    """Its publications are pending, parked, retained, or of an ended subscription."""
    verdict = verify(sound_topics)
    assert faults(verdict) == []
    found = store_content(sound_topics)
    kinds = {kind["kind"] for kind in found["kinds"]}
    assert {
        SPACES[space]
        for space in (keys.SPACE_TOPIC, keys.SPACE_HOLDERS, keys.SPACE_PARKED, keys.SPACE_RETAINED)
    } <= kinds
    rows = {row["queue"]: row for row in found["queues"]}
    assert (rows["A:a"]["depth"], rows["A:a"]["parked"]) == (1, 1)


def test_each_stop_leaves_a_sound_store(tmp_path: Path) -> None:
    store = disk_store(tmp_path, 1 << 30)
    hub = Hub(store, limits={"turn_rows": 15})
    filled(hub)
    for _ in range(10):
        hub.crash()
        hub.manager.turn()
        hub.manager.store.close()
        assert faults(verify(tmp_path)) == []
        hub.manager.store = disk_store(tmp_path, 1 << 30)
    hub.manager.store.close()
