"""The part of the demo about groups. Shows progress and results."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from qmgr_demo import report
from qmgr_demo.cluster import Node
from qmgr_demo.flights import Flight
from qmgr_demo.legs import busiest_day
from qmgr_demo.pinned import CONSUMERS, KILLED, KILLS, PinnedDay, PinnedFailed

SHOW_S = 0.1


async def pinned_part(
    console: Console, node: Node, flights: Sequence[Flight], directory: Path
) -> bool:
    """Consumes one day of *flights* by aircraft. Returns whether all results are correct."""
    day = busiest_day(flights)
    console.print(
        f"{day.date} at {day.airport}: {len(CONSUMERS)} consumers process the legs of "
        f"{day.aircraft:,} aircraft.\nEach aircraft is a group. {KILLED} is killed between two "
        "legs."
    )
    run = PinnedDay(day, node, directory)
    showing = asyncio.create_task(_show_progress(console, run))
    try:
        await run.run()
    except PinnedFailed as error:
        console.print(f"[red]error[/red]: {error}")
        return False
    finally:
        showing.cancel()
        await asyncio.wait([showing])
    audit = run.audit()
    totals = report.DayTotals(run.put, run.left, KILLED, run.kills, run.seconds)
    report.show_day(console, day, audit, totals)
    return audit.is_clean and not run.left


async def _show_progress(console: Console, run: PinnedDay) -> None:
    """Shows the progress until cancelled."""
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    total = len(run.day.legs)
    with Progress(*columns, console=console) as bars:
        put = bars.add_task("legs put", total=total)
        consumed = bars.add_task("consumed", total=total)
        kills = bars.add_task("kills", total=KILLS)
        try:
            while True:
                await asyncio.sleep(SHOW_S)
                _update(bars, run, put, consumed, kills)
        finally:
            _update(bars, run, put, consumed, kills)


def _update(bars: Progress, run: PinnedDay, put: TaskID, consumed: TaskID, kills: TaskID) -> None:
    bars.update(put, completed=run.put)
    bars.update(consumed, completed=len(run.flown))
    bars.update(kills, completed=run.kills)
