"""Tests that the ledger detects each kind of fault."""

from qmgr_demo.ledger import Ledger


def ledger() -> Ledger:
    found = Ledger()
    for number in (1, 2):
        found.note_put(number)
    return found


def test_what_was_acknowledged_and_never_came_out_is_lost() -> None:
    checker = ledger()
    assert checker.note_delivery(1, "A.1", flagged=False, known=True)
    assert checker.lost == {2}
    assert not checker.is_clean


def test_a_flagged_repetition_is_redelivered_not_doubled() -> None:
    checker = ledger()
    assert checker.note_delivery(1, "A.1", flagged=False, known=True)
    assert not checker.note_delivery(1, "A.1", flagged=True, known=True)
    assert (checker.redelivered, checker.doubled) == (1, [])


def test_an_unflagged_repetition_is_doubled() -> None:
    checker = ledger()
    checker.note_delivery(1, "A.1", flagged=False, known=True)
    assert not checker.note_delivery(1, "A.1", flagged=False, known=True)
    assert checker.doubled == [1]


def test_the_same_message_under_another_uid_is_doubled_whatever_its_flag() -> None:
    checker = ledger()
    checker.note_delivery(1, "A.1", flagged=False, known=True)
    assert not checker.note_delivery(1, "A.2", flagged=True, known=True)
    assert checker.doubled == [1]


def test_message_that_was_never_put_is_unexpected() -> None:
    checker = ledger()
    assert not checker.note_delivery(9, "A.9", flagged=False, known=False)
    assert checker.unexpected == [9]


def test_a_balanced_ledger_is_clean() -> None:
    checker = ledger()
    for number in (1, 2):
        checker.note_delivery(number, f"A.{number}", flagged=False, known=True)
    assert checker.is_clean
    assert checker.consumed == 2


def test_all_came_out_with_the_last_or_but_what_is_not_waited_for() -> None:
    ledger = Ledger({1, 2, 3})
    for number in (1, 2):
        ledger.note_delivery(number, str(number), flagged=False, known=True)
    assert not ledger.has_all()
    assert ledger.has_all(but={3})
    assert not ledger.has_all(but={2})
    ledger.note_delivery(3, "3", flagged=False, known=True)
    assert ledger.has_all()
