"""Simulates a bad network until the command is stopped, and prints the events."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from qmgr_config.address import Address
from qmgr_proxy import outages as proxy_outages
from qmgr_proxy.fault import Faults, FaultyInlet, Inlet
from qmgr_proxy.outages import Outages
from qmgr_proxy.pipe import Pipe, Shape
from qmgr_proxy.proxy import Proxy, ProxyConnection, Way
from qmgr_tools.cli import humanize as humanize
from qmgr_tools.cli import output
from qmgr_tools.cli.failure import Exit, Failure

NOTHING: Mapping[str, Any] = {}


class Plan(NamedTuple):
    """The settings of a simulated network."""

    listen: Address
    target: Address
    shape: Shape
    faults: Faults
    outages: Outages
    seed: int
    duration_ms: int  # duration of the run; 0 means until SIGINT or SIGTERM


class _Log:
    """A printer and counter of events."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self._started_s = time.monotonic()
        self._totals: Counter[str] = Counter()

    def write(
        self,
        what: str,
        connection: int | None = None,
        way: Way | None = None,
        count: int | None = None,
        of: str = "",
        facts: Mapping[str, Any] = NOTHING,
    ) -> None:
        """Prints one event. *of* is the unit of *count*."""
        self._totals[what] += 1
        ms = round((time.monotonic() - self._started_s) * 1_000)
        if self._is_json:
            known = {"ms": ms, "what": what, "connection": connection, "count": count}
            output.line({**known, "way": way.value if way else None, **facts})
        else:
            whose = "" if connection is None else f" connection {connection}"
            where = f" {way.value}" if way else ""
            size = "" if count is None else f": {humanize.counted(count, of)}"
            details = "".join(f"  {key} {value}" for key, value in facts.items())
            output.say(f"{ms / 1000:9.3f} s  {what}{whose}{where}{size}{details}")
        output.flush()

    def end(self) -> None:
        """Prints the number of events by kind."""
        totals = {what: count for what, count in self._totals.items() if what != "listening"}
        if self._is_json:
            self.write("ended", facts={"totals": totals})
        else:
            self.write("ended", facts={f"{what}:": f"{count:,}" for what, count in totals.items()})


def run(plan: Plan, *, is_json: bool) -> None:
    """Forwards connections according to *plan*.

    Raises:
        Failure: FAILED if the port is in use.
    """
    asyncio.run(_run(_Log(is_json=is_json), plan))


def _inlet(log: _Log, plan: Plan, connection: ProxyConnection, way: Way, pipe: Pipe) -> Inlet:
    """Returns the stage in front of a direction of a new connection."""
    if plan.faults == Faults():
        return pipe

    def report(what: str, size: int) -> None:
        log.write(what, connection.number, way, size, "byte")

    chance = Random(f"{plan.seed}/{connection.number}/{way.value}")
    return FaultyInlet(plan.faults, chance, pipe, report)


async def _run(log: _Log, plan: Plan) -> None:
    made = Proxy(
        plan.target.host,
        plan.target.port,
        plan.shape,
        listen=plan.listen,
        inlet=lambda connection, way, pipe: _inlet(log, plan, connection, way, pipe),
        news=lambda what, connection: log.write(what, connection.number),
    )
    try:
        await made.start()
    except OSError as error:
        what, why = f"cannot listen at {plan.listen}", error.strerror or str(error)
        raise Failure(
            Exit.FAILED, what, why, "choose another port, or stop the program that uses it"
        ) from None
    facts = {"address": made.address, "target": str(plan.target), "seed": plan.seed}
    log.write("listening", facts=facts)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            making = tasks.create_task(
                proxy_outages.run(
                    made,
                    plan.outages,
                    plan.seed,
                    lambda what, count: log.write(what, count=count, of="connection"),
                )
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(plan.duration_ms / 1000 if plan.duration_ms else None):
                    await ended.wait()
            making.cancel()
    finally:
        await made.close()
    log.end()
