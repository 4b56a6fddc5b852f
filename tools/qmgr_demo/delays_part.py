"""The part of the demo about topics. Shows progress and results."""

import asyncio
from collections.abc import Sequence

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
from qmgr_demo.delays import FAILS_ON, OVER_MINUTES, SUBSCRIBERS, delayed
from qmgr_demo.delays_run import KILLS, DelaysFailed, DelaysRun
from qmgr_demo.flights import Flight

SHOW_S = 0.1


async def delays_part(console: Console, node: Node, flights: Sequence[Flight]) -> bool:
    """Publishes the delays of *flights* at *node*. Returns whether all results are correct."""
    delays = delayed(flights)
    failing = next(one.name for one in SUBSCRIBERS if one.fails)
    console.print(
        f"{len(delays):,} of the flights left more than {OVER_MINUTES} minutes late. {node.name} "
        f"publishes\nthem to {len(SUBSCRIBERS)} subscribers by airport and carrier. Until "
        f"{failing} is fixed, it\nfails on flights whose number is a multiple of {FAILS_ON}."
    )
    run = DelaysRun(delays, node)
    showing = asyncio.create_task(_show_progress(console, run))
    try:
        await run.run()
    except DelaysFailed as error:
        console.print(f"[red]error[/red]: {error}")
        return False
    finally:
        showing.cancel()
        await asyncio.wait([showing])
    totals = report.DelaysTotals(
        run.published,
        run.failures,
        run.parked,
        run.parked_wrongly,
        run.still_parked,
        run.left,
        run.kills,
        run.seconds,
    )
    report.show_delays(console, [*run.had, run.late], totals)
    return run.is_clean


async def _show_progress(console: Console, run: DelaysRun) -> None:
    """Shows the progress until cancelled."""
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        published = bars.add_task("published", total=len(run.delays))
        consumed = bars.add_task("consumed", total=run.wanted)
        kills = bars.add_task("kills", total=KILLS)
        try:
            while True:
                await asyncio.sleep(SHOW_S)
                _update(bars, run, published, consumed, kills)
        finally:
            _update(bars, run, published, consumed, kills)


def _update(
    bars: Progress, run: DelaysRun, published: TaskID, consumed: TaskID, kills: TaskID
) -> None:
    bars.update(published, completed=run.published)
    bars.update(consumed, completed=run.consumed)
    bars.update(kills, completed=run.kills)
