"""qmctl proxy: a bad network between a client, or a link, and a queue manager."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Annotated, Any

import typer

from qmgr_config.address import Address, parse_address
from qmgr_tools import option, output, proxy_weather
from qmgr_tools.command import Call, command
from qmgr_tools.failure import Exit, Failure, usage
from qmgr_tools.proxy import Proxy, ProxyConnection, Way
from qmgr_tools.proxy_fault import Faults, FaultyInlet, Inlet
from qmgr_tools.proxy_pipe import Pipe, Shape
from qmgr_tools.proxy_weather import Weather

SEED_MAX = 2**32 - 1
STALL_MS = 2_000  # by default
NOTHING: Mapping[str, Any] = {}
Listen = Annotated[
    str, typer.Argument(metavar="LISTEN", show_default=False, help="Where it listens: HOST:PORT.")
]
Target = Annotated[
    str, typer.Argument(metavar="TARGET", show_default=False, help="Where it leads: HOST:PORT.")
]


def _time(help_: str) -> Any:
    return typer.Option(metavar="TIME", parser=option.wait, show_default=False, help=help_)


def _percent(help_: str) -> Any:
    return typer.Option(metavar="PERCENT", min=0, max=100, show_default=False, help=help_)


@command(local=True)
def proxy(
    call: Call, listen: Listen, target: Target,
    delay: Annotated[int, _time("Each way takes so much longer.")] = 0,
    rate: Annotated[
        int,
        typer.Option(
            metavar="SIZE", parser=option.size, show_default=False,
            help="At most so many bytes a second, each way of each connection.",
        ),
    ] = 0,
    cut_every: Annotated[int, _time("Cut all connections about that often.")] = 0,
    refuse_for: Annotated[int, _time("Refuse new ones for so long after a cut.")] = 0,
    stall_every: Annotated[int, _time("Pass nothing for a while, about that often.")] = 0,
    stall_for: Annotated[int, _time("For so long; default: 2s.")] = 0,
    lose: Annotated[float, _percent("Lose so many of a hundred chunks.")] = 0,
    double: Annotated[float, _percent("Pass so many of a hundred chunks twice.")] = 0,
    reorder: Annotated[float, _percent("Swap so many of a hundred chunks with the next.")] = 0,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=SEED_MAX, show_default=False,
            help="Repeat the chances of an earlier run.",
        ),
    ] = None,
    duration: Annotated[int, _time("End after so long; else Ctrl-C ends it.")] = 0,
) -> None:  # fmt: skip
    """Pass connections on to TARGET as a bad network would: late, cut, stalled, damaged.

    For tests of applications, and of links. A chunk is what one read brings, up to 256 KiB. Bytes
    that are lost, doubled or swapped break a connection; no message may be lost or doubled by it.
    It prints what it does, and at the end how often.

    \b
    JSON: one line for each thing done, an object with
      ms            since the start
      what          listening, opened, closed, target not reached, cut,
                    accepting again, stalled, passing again, lost, doubled,
                    reordered, ended
      connection    its number, from 0; null: all
      way           forth (to TARGET), back; null: both
      count         bytes of a chunk; connections; else null
      of listening also address, target, seed; of ended totals, an object

    Examples:
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --delay 20ms --cut-every 5s
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --lose 1 --reorder 1 --seed 42
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --stall-every 10s --duration 1min
    """
    here, there = _address(listen, "LISTEN"), _address(target, "TARGET")
    try:
        faults = Faults(lose, double, reorder)
    except ValueError as error:
        raise usage("cannot damage so many chunks", str(error)) from None
    weather = Weather(cut_every, refuse_for, stall_every, stall_for or STALL_MS)
    seed = Random().randint(0, SEED_MAX) if seed is None else seed
    shape = Shape(delay, rate)
    log = _Log(is_json=call.is_json)
    asyncio.run(_run(log, here, there, shape, faults, weather, seed, duration))


def _address(text: str, name: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise usage(f"{name} is not an address", str(error), "say HOST:PORT") from None


class _Log:
    """Prints what is done, as it is done, and counts it."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self._started_s = time.monotonic()
        self._totals: Counter[str] = Counter()

    def write(
        self, what: str, connection: int | None = None, way: Way | None = None,
        count: int | None = None, of: str = "", facts: Mapping[str, Any] = NOTHING,
    ) -> None:  # fmt: skip
        """Print one thing; *of* says what is counted."""
        self._totals[what] += 1
        ms = round((time.monotonic() - self._started_s) * 1_000)
        if self._is_json:
            known = {"ms": ms, "what": what, "connection": connection, "count": count}
            output.line({**known, "way": way.value if way else None, **facts})
        else:
            whose = "" if connection is None else f" connection {connection}"
            where = f" {way.value}" if way else ""
            size = "" if count is None else f": {count:,} {of}"
            told = "".join(f"  {key} {value}" for key, value in facts.items())
            output.say(f"{ms / 1000:9.3f} s  {what}{whose}{where}{size}{told}")
        output.flush()

    def end(self) -> None:
        """Print how often what was done."""
        totals = {what: count for what, count in self._totals.items() if what != "listening"}
        if self._is_json:
            self.write("ended", facts={"totals": totals})
        else:
            self.write("ended", facts={f"{what}:": f"{count:,}" for what, count in totals.items()})


async def _run(
    log: _Log, here: Address, there: Address, shape: Shape, faults: Faults, weather: Weather,
    seed: int, duration_ms: int,
) -> None:  # fmt: skip
    def inlet(connection: ProxyConnection, way: Way, pipe: Pipe) -> Inlet:
        if faults == Faults():
            return pipe

        def tell(what: str, size: int) -> None:
            log.write(what, connection.number, way, size, "bytes")

        chance = Random(f"{seed}/{connection.number}/{way.value}")
        return FaultyInlet(faults, chance, pipe, tell)

    made = Proxy(
        there.host, there.port, shape, listen=here, inlet=inlet,
        news=lambda what, connection: log.write(what, connection.number),
    )  # fmt: skip
    try:
        await made.start()
    except OSError as error:
        what, why = f"cannot listen at {here}", error.strerror or str(error)
        raise Failure(Exit.FAILED, what, why, "name another port, or end who has it") from None
    log.write("listening", facts={"address": made.address, "target": str(there), "seed": seed})
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            making = tasks.create_task(
                proxy_weather.run(
                    made, weather, seed,
                    lambda what, count: log.write(what, count=count, of="connections"),
                )
            )  # fmt: skip
            with suppress(TimeoutError):
                async with asyncio.timeout(duration_ms / 1000 if duration_ms else None):
                    await ended.wait()
            making.cancel()
    finally:
        await made.close()
    log.end()
