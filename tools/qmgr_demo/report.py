"""The results of the demo."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from qmgr_demo.delays import LATE, OVER_MINUTES, SubscriberResult
from qmgr_demo.flights import AIRPORTS, Mean
from qmgr_demo.ledger import Ledger
from qmgr_demo.legs import Audit, Day
from qmgr_demo.logins import CLIENT, LINK, OWNER, Logins

Means = dict[tuple[str, str], Mean]


class Totals(NamedTuple):
    """The figures of a run."""

    transferred: int
    kills: dict[str, int]
    seconds: float
    snapshot_messages: int
    snapshot_turn: int
    cuts: int = 0  # number of paths that were cut
    stalls: int = 0  # number of paths that were stalled


class DayTotals(NamedTuple):
    """The figures of a day whose legs were consumed as groups."""

    put: int
    left: int  # number of messages left on the queue
    killed: str  # name of the killed consumer
    kills: int
    seconds: float


class DelaysTotals(NamedTuple):
    """The figures of the topics part."""

    published: int
    failures: int  # number of deliveries that a subscriber failed on
    parked: int
    parked_wrongly: int
    still_parked: int  # number of parked publications at the end
    left: int  # number of publications left on their queue at the end
    kills: int
    seconds: float


def show(console: Console, ledger: Ledger, totals: Totals) -> None:
    """Prints the results for the messages."""
    kills = ", ".join(f"{name} {count}" for name, count in totals.kills.items())
    rate = ledger.consumed / totals.seconds if totals.seconds else 0.0
    rows = [
        ("put and acknowledged", f"{len(ledger.acknowledged):,}"),
        ("transferred to the hub", f"{totals.transferred:,}"),
        ("consumed", f"{ledger.consumed:,}"),
        ("lost", _verdict(len(ledger.lost))),
        ("duplicated", _verdict(len(ledger.doubled) + len(ledger.unexpected))),
        ("redelivered with flag", f"{ledger.redelivered:,}"),
        ("kills survived (-9)", f"{sum(totals.kills.values())}  ({kills})"),
        ("paths of links cut, stalled", f"{totals.cuts}, {totals.stalls}"),
        ("messages per second, end to end", f"{rate:,.0f}"),
        ("in the snapshot", f"{totals.snapshot_messages:,}  (turn {totals.snapshot_turn:,})"),
    ]
    _print_table(console, "Results", rows)


def show_day(console: Console, day: Day, audit: Audit, totals: DayTotals) -> None:
    """Prints the results for the legs of a day."""
    shares = ", ".join(f"{name} {audit.by[name]}" for name in sorted(audit.by))
    rows = [
        ("legs put", f"{totals.put:,}"),
        ("aircraft (one group each)", f"{day.aircraft:,}"),
        ("legs consumed in order", f"{audit.in_order:,}"),
        ("out of order", _verdict(len(audit.out_of_order))),
        ("lost", _verdict(len(audit.lost) + totals.left)),
        ("duplicated", _verdict(len(audit.doubled) + len(audit.unexpected))),
        ("consumed by", shares),
        ("kills survived (-9)", f"{totals.killed} {totals.kills}"),
        ("redelivered with flag", f"{audit.redelivered:,}"),
        ("aircraft handed over", f"{audit.handed_over:,}  (between two legs {audit.between})"),
        ("handed over without notification", _verdict(len(audit.untold))),
        ("seconds", f"{totals.seconds:.1f}"),
    ]
    _print_table(console, f"{day.date} at {day.airport}", rows)


def show_delays(console: Console, had: Sequence[SubscriberResult], totals: DelaysTotals) -> None:
    """Prints the publications that each subscriber received, and the parked ones."""
    ledgers = [one.ledger for one in had]
    failing = [one for one in had if one.subscriber.fails]
    others = [one for one in had if not one.subscriber.fails]
    again = sum(len(one.republished & one.parked) for one in failing)
    strangers = sum(len(one.republished - one.parked) for one in failing)
    copies = sum(len(one.republished) for one in others)
    wrong = [len(one.doubled) + len(one.unexpected) for one in ledgers]
    rows = [
        ("published, each stored once", f"{totals.published:,}"),
        *(("consumed by " + _name(one), _of(one)) for one in had),
        ("lost", _verdict(sum(len(one.lost) for one in ledgers))),
        ("duplicated, or outside the filter", _verdict(sum(wrong))),
        ("redelivered with flag", f"{sum(one.redelivered for one in ledgers):,}"),
        (
            f"parked after failures of {_names(failing)}",
            f"{totals.parked:,}  ({totals.failures:,} deliveries)",
        ),
        ("unexpected or missing parked publications", _verdict(totals.parked_wrongly)),
        (f"republished to {_names(failing)}", f"{again:,}"),
        ("republished, but not parked before", _verdict(strangers)),
        ("republished to other subscribers", _verdict(copies)),
        (
            "left on the list, and on SYSTEM.PUBLICATIONS",
            f"{_verdict(totals.still_parked)}, {_verdict(totals.left)}",
        ),
        ("kills survived (-9)", f"{totals.kills}"),
        ("seconds", f"{totals.seconds:.1f}"),
    ]
    title = f"Departures more than {OVER_MINUTES} minutes late, published"
    _print_table(console, title, rows)


def show_logins(console: Console, logins: Logins, users: int, refusal: str) -> None:
    """Prints the logins by method and the refusals. *refusal* is the one that the demo causes."""
    rows = [
        ("users of the four queue managers", f"{users}"),
        ("logins of links over TLS, by SCRAM-SHA-256-PLUS", f"{logins.accepted[LINK]:,}"),
        ("logins of clients, by SCRAM-SHA-256", f"{logins.accepted[CLIENT]:,}"),
        ("logins of the daemons' owner, for the setup", f"{logins.accepted[OWNER]:,}"),
        ("other logins", _verdict(logins.otherwise)),
        ("refused logins", _verdict(logins.refused)),
        ("requests refused, as expected", f"{int(bool(refusal))}" if refusal else "[red]0[/red]"),
        ("requests refused, not expected", _verdict(logins.denied.total() - bool(refusal))),
    ]
    _print_table(console, "Logins and refusals, from the audits", rows)
    console.print(
        f"Refused: {refusal}" if refusal else "[red]a put without a right was stored[/red]"
    )
    console.print("Each kill loses counts of repeated logins, so more logins may have happened.")


def _name(had: SubscriberResult) -> str:
    one = had.subscriber
    if one is LATE:
        return f"a late subscriber, {one.filter}"
    return (
        f"{one.name}, {one.filter}" if one.name else f"a subscriber of the first half, {one.filter}"
    )


def _names(had: Sequence[SubscriberResult]) -> str:
    return ", ".join(one.subscriber.name for one in had)


def _of(had: SubscriberResult) -> str:
    ledger = had.ledger
    words = f"{ledger.consumed:,} of {len(ledger.acknowledged):,}"
    return words if ledger.uids.keys() == ledger.acknowledged else f"[red]{words}[/red]"


def _print_table(console: Console, title: str, rows: Sequence[tuple[str, str]]) -> None:
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def show_means(console: Console, found: Means, expected: Means) -> bool:
    """Prints flights and mean delay by carrier and airport. Returns whether *found* is right."""
    table = Table(
        title="Spark reads the snapshot: flights and mean departure delay (minutes)",
        caption="Each cell has Spark's result; != shows the expected value if it differs.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("carrier")
    for airport in AIRPORTS:
        table.add_column(f"{airport} flights", justify="right")
        table.add_column("delay", justify="right")
    for carrier in sorted({carrier for carrier, _ in found.keys() | expected.keys()}):
        cells: list[str] = []
        for airport in AIRPORTS:
            cells += _cells(found.get((carrier, airport)), expected.get((carrier, airport)))
        table.add_row(carrier, *cells)
    console.print(table)
    agree = found == expected
    flights = sum(mean.flights for mean in expected.values())
    console.print(
        f"[green]Spark and the input agree: {len(expected)} groups, {flights:,} flights[/green]"
        if agree
        else "[red]Spark and the input disagree[/red]"
    )
    return agree


def _cells(found: Mean | None, expected: Mean | None) -> tuple[str, str]:
    shown = (f"{found.flights:,}", _delay(found)) if found else ("", "")
    if found == expected:
        return shown
    wrong = (f"{expected.flights:,}", _delay(expected)) if expected else ("nothing", "")
    return f"[red]{shown[0]} != {wrong[0]}[/red]", f"[red]{shown[1]} != {wrong[1]}[/red]"


def _delay(mean: Mean) -> str:
    return "-" if mean.mean is None else f"{mean.mean:.2f}"


def _verdict(count: int) -> str:
    return "[green]0[/green]" if count == 0 else f"[red]{count:,}[/red]"
