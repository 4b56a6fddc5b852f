"""qmctl proxy: a bad network between a client, or a link, and a queue manager."""

from random import Random
from typing import Annotated, Any

import typer

from qmgr_config.address import Address, parse_address
from qmgr_tools.cli import option
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage

SEED_MAX = 2**32 - 1
STALL_MS = 2_000  # by default
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
    call: Call,
    listen: Listen,
    target: Target,
    delay: Annotated[int, _time("Each way takes so much longer.")] = 0,
    rate: Annotated[
        int,
        typer.Option(
            metavar="SIZE",
            parser=option.size,
            show_default=False,
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
            metavar="N",
            min=0,
            max=SEED_MAX,
            show_default=False,
            help="Repeat the chances of an earlier run.",
        ),
    ] = None,
    duration: Annotated[int, _time("End after so long; else Ctrl-C ends it.")] = 0,
) -> None:
    """Passes connections on to TARGET as a bad network would: late, cut, stalled, damaged.

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
    from qmgr_proxy import run as proxy_run  # takes 60 ms: not for --help
    from qmgr_proxy.fault import Faults
    from qmgr_proxy.pipe import Shape
    from qmgr_proxy.weather import Weather

    try:
        faults = Faults(lose, double, reorder)
    except ValueError as error:
        raise usage("cannot damage so many chunks", str(error)) from None
    weather = Weather(cut_every, refuse_for, stall_every, stall_for or STALL_MS)
    seed = Random().randint(0, SEED_MAX) if seed is None else seed
    plan = proxy_run.Plan(here, there, Shape(delay, rate), faults, weather, seed, duration)
    proxy_run.run(plan, is_json=call.is_json)


def _address(text: str, name: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise usage(f"{name} is not an address", str(error), "say HOST:PORT") from None
