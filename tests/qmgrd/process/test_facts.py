from pathlib import Path

import pytest

from qmgr_config.model import DurabilityConfig
from qmgrd.process.facts import process_facts
from qmgrd.process.turn_times import TurnTimes
from qmgrd.store.opening import open_store


@pytest.mark.parametrize(("journal", "place"), [(True, "file"), (False, "none")])
def test_facts_name_the_journal_and_the_space(tmp_path: Path, journal: bool, place: str) -> None:
    durability = DurabilityConfig(journal=journal, journal_bytes=1 << 20)
    store = open_store(tmp_path, 1 << 24, durability)
    try:
        facts = process_facts(store, TurnTimes(), 7)
    finally:
        store.close()
    assert facts["journal"] == {"place": place}
    assert (facts["uptime_ms"], facts["store_map_bytes"]) == (7, 1 << 24)
    assert facts["disk_free_bytes"] > 0


def test_longest_turn_is_the_longest_since_the_last_call(tmp_path: Path) -> None:
    store = open_store(tmp_path, 1 << 24, DurabilityConfig(journal=False))
    times = TurnTimes()
    times.add(3_000_000)
    try:
        found = [process_facts(store, times, 0)["turn_longest_us"] for _ in range(2)]
    finally:
        store.close()
    assert found == [3_000, 0]
