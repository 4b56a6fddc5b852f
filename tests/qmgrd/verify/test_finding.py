import pytest

from qmgrd.verify.finding import FINDINGS_MAX, MEANINGS, Findings
from tests.qmgrd.verify import test_definitions as test_verify_definitions
from tests.qmgrd.verify import test_groups as test_verify_groups
from tests.qmgrd.verify import test_history as test_verify_history
from tests.qmgrd.verify import test_index as test_verify_index
from tests.qmgrd.verify import test_publications as test_verify_publications
from tests.qmgrd.verify import test_queue as test_verify_queue
from tests.qmgrd.verify import test_schedule as test_verify_schedule


def test_finding_states_its_consequence() -> None:
    found = Findings()
    found.add("leak", b"", "3 pages")
    assert found.kept[0].means == MEANINGS["leak"]


def test_rotten_store_does_not_fill_the_memory() -> None:
    found = Findings()
    for number in range(FINDINGS_MAX + 5):
        found.add("record", b"", str(number))
    assert len(found.kept) == FINDINGS_MAX
    assert found.counts["record"] == FINDINGS_MAX + 5


def test_fault_without_a_meaning_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Findings().add("nonsense", b"", "")


def test_each_fault_has_its_damage_in_the_tests() -> None:
    damages = test_verify_definitions.DAMAGES + test_verify_queue.DAMAGES
    damages = damages + test_verify_index.DAMAGES + test_verify_schedule.DAMAGES
    damages = damages + test_verify_groups.DAMAGES + test_verify_publications.DAMAGES
    elsewhere = {"pages", "leak", "manifest", "pieces-shared", "retained", "journal"}
    of_history = {fault for _, fault in test_verify_history.DAMAGES}
    assert {fault for fault, _, _ in damages} | of_history | elsewhere == set(MEANINGS)
