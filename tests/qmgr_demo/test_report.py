"""Tests of the tables that the demo prints."""

import io
from collections import Counter

from rich.console import Console

from qmgr_demo import report
from qmgr_demo.delays import LATE, Subscriber, SubscriberResult
from qmgr_demo.flights import Mean
from qmgr_demo.ledger import Ledger
from qmgr_demo.legs import Audit, Day, Leg
from qmgr_demo.logins import CLIENT, LINK, OWNER, Logins


def console() -> Console:
    return Console(file=io.StringIO(), width=120)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_the_table_names_losses_and_kills() -> None:
    ledger = Ledger()
    ledger.note_put(7)
    shown = console()
    report.show(shown, ledger, report.Totals(0, {"EWR": 3}, 2.0, 5, 42))
    rows = {line.strip("│| ").split("  ")[0]: line for line in text(shown).splitlines()}
    assert "1" in rows["lost"]
    assert "EWR 3" in rows["kills survived (-9)"]
    assert "turn 42" in rows["in the snapshot"]


def test_means_that_agree_say_so() -> None:
    means = {("UA", "EWR"): Mean(10, 8, 40)}
    shown = console()
    assert report.show_means(shown, means, dict(means))
    assert "5.00" in text(shown)
    assert "agree: 1 groups, 10 flights" in text(shown)


def test_means_that_differ_show_both() -> None:
    shown = console()
    found, expected = {("UA", "EWR"): Mean(9, 8, 40)}, {("UA", "EWR"): Mean(10, 8, 40)}
    assert not report.show_means(shown, found, expected)
    assert "9 != 10" in text(shown)
    assert "disagree" in text(shown)


def test_day_names_what_was_lost_and_who_took_over() -> None:
    legs = [Leg("N1", 1, False, 7, b""), Leg("N1", 2, True, 8, b""), Leg("", 1, True, 9, b"")]
    found = Audit(in_order=2, lost=legs[2:], handed_over=3, between=1)
    found.by.update({"B": 1, "A": 1})
    shown = console()
    report.show_day(
        shown, Day("2013-01-01", "EWR", legs), found, report.DayTotals(3, 1, "D", 5, 6.04)
    )
    rows = [line.strip("│ ").split("│") for line in text(shown).splitlines() if "│" in line]
    cells = {name.strip(): value.strip() for name, value in rows}
    assert cells["aircraft (one group each)"] == "1"
    assert cells["lost"] == "2"  # One of the two is still on the queue.
    assert cells["out of order"] == cells["duplicated"] == "0"
    assert cells["consumed by"] == "A 1, B 1"
    assert cells["kills survived (-9)"] == "D 5"
    assert cells["aircraft handed over"] == "3  (between two legs 1)"


def test_delays_name_who_lacks_something_and_who_had_too_much() -> None:
    short = SubscriberResult(Subscriber("A:a", "JFK"), Ledger({1, 2}), set(), {2})
    short.ledger.note_delivery(2, "2", flagged=False, known=True)
    failing = SubscriberResult(Subscriber("B:b", fails=True), Ledger({1, 2}), {2}, {1, 2})
    late = SubscriberResult(LATE, Ledger(), set())
    shown = console()
    totals = report.DelaysTotals(2, 3, 1, 0, 4, 5, 2, 1.5)
    report.show_delays(shown, [short, failing, late], totals)
    rows = [line.strip("│ ").split("│") for line in text(shown).splitlines() if "│" in line]
    cells = {name.strip(): value.strip() for name, value in rows}
    assert cells["consumed by A:a, delays/JFK/+"] == "1 of 2"
    assert cells["consumed by a late subscriber, delays/#"] == "0 of 0"
    assert cells["lost"] == "3"
    assert cells["parked after failures of B:b"] == "1  (3 deliveries)"
    assert cells["republished to B:b"] == "1"
    assert cells["republished, but not parked before"] == "1"
    assert cells["republished to other subscribers"] == "1"
    assert cells["left on the list, and on SYSTEM.PUBLICATIONS"] == "4, 5"


def test_logins_show_what_was_refused_and_what_should_have_been() -> None:
    logins = Logins(Counter({LINK: 12, CLIENT: 30, OWNER: 4, "open": 2}), 3, Counter(arrivals=1))
    shown = console()
    report.show_logins(shown, logins, 17, "user arrivals may not do this")
    rows = [line.strip("│ ").split("│") for line in text(shown).splitlines() if "│" in line]
    cells = {name.strip(): value.strip() for name, value in rows}
    assert cells["logins of links over TLS, by SCRAM-SHA-256-PLUS"] == "12"
    assert cells["other logins"] == "2"
    assert cells["refused logins"] == "3"
    assert cells["requests refused, not expected"] == "0"
    shown = console()
    report.show_logins(shown, Logins(denied=Counter(boards=2)), 17, "")
    assert "a put without a right was stored" in text(shown)
    unexpected = [line for line in text(shown).splitlines() if "not expected" in line]
    assert ["2" in line.split() for line in unexpected] == [True]
