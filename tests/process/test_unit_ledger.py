from tests.process.unit_ledger import SIDES, UnitLedger


def ledger(*numbers: int) -> UnitLedger:
    """Returns a ledger in which *numbers* were committed and received."""
    found = UnitLedger(committed=set(numbers))
    found.consumed.update((number, side) for number in numbers for side in SIDES)
    return found


def test_complete_ledger_has_no_faults() -> None:
    assert not any(ledger(1, 2).faults().values())


def test_dead_letter_is_not_lost() -> None:
    found = ledger(1)
    del found.consumed[1, "a"]
    found.dead[1, "a"] += 1
    assert not any(found.faults().values())


def test_token_that_did_not_come_out_is_lost() -> None:
    found = ledger(1)
    del found.consumed[1, "b"]
    assert found.faults()["lost"] == [(1, "b")]


def test_token_with_a_short_time_to_live_may_be_missing() -> None:
    found = ledger(1)
    del found.consumed[1, "b"]
    found.expiring.add(1)
    assert not any(found.faults().values())


def test_token_that_is_consumed_and_a_dead_letter_is_doubled() -> None:
    found = ledger(1)
    found.dead[1, "a"] += 1
    assert found.faults()["doubled"] == [(1, "a")]


def test_token_of_a_backed_out_unit_was_never_committed() -> None:
    found = ledger(1)
    found.committed.clear()
    found.refused.add(1)
    assert found.faults()["never committed"] == [(1, "a"), (1, "b")]


def test_half_of_a_unit_of_unknown_outcome_is_halved() -> None:
    found = ledger(1)
    found.committed.clear()
    found.unknown.add(1)
    assert not any(found.faults().values())
    del found.consumed[1, "b"]
    assert found.faults()["halved"] == [(1, "b")]
