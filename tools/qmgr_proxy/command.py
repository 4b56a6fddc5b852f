"""qmctl proxy: simulates a bad network between a client or a link and a queue manager."""

from random import Random
from typing import Annotated, Any

import typer

from qmgr_config.address import Address, parse_address
from qmgr_tools.cli import option
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage

SEED_MAX = 2**32 - 1
STALL_MS = 2_000  # default duration of a stall
Listen = Annotated[
    str,
    typer.Argument(
        metavar="LISTEN", show_default=False, help="The address to listen on: HOST:PORT."
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", show_default=False, help="The address to forward to: HOST:PORT."
    ),
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
    delay: Annotated[int, _time("Delay each direction by this time.")] = 0,
    rate: Annotated[
        int,
        typer.Option(
            metavar="SIZE",
            parser=option.size,
            show_default=False,
            help="Limit the bytes per second, per direction and connection.",
        ),
    ] = 0,
    cut_every: Annotated[int, _time("Cut all connections about this often.")] = 0,
    refuse_for: Annotated[int, _time("Refuse new connections for this time after a cut.")] = 0,
    stall_every: Annotated[int, _time("Stall all traffic about this often.")] = 0,
    stall_for: Annotated[int, _time("Let each stall last this time. Default: 2s.")] = 0,
    lose: Annotated[float, _percent("Lose this percentage of chunks.")] = 0,
    double: Annotated[float, _percent("Pass this percentage of chunks twice.")] = 0,
    reorder: Annotated[float, _percent("Swap this percentage of chunks with the next one.")] = 0,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=SEED_MAX,
            show_default=False,
            help="Repeat the random choices of an earlier run.",
        ),
    ] = None,
    duration: Annotated[int, _time("End after this time. Default: run until Ctrl-C.")] = 0,
) -> None:
    """Forward connections to TARGET over a simulated bad network: late, cut, stalled or damaged.

    Use it to test applications and links. A chunk is the data of one read, up to 256 KiB. Lost,
    doubled or swapped bytes break a connection, but no message may be lost or duplicated. The
    command prints each event. At its end it prints the number of events by kind.

    \b
    JSON: one line for each event, an object with
      ms            milliseconds since the start
      what          listening, opened, closed, target not reached, cut,
                    accepting again, stalled, passing again, lost, doubled,
                    reordered, ended
      connection    number of the connection, from 0; null: all
      way           forth (to TARGET), back; null: both
      count         bytes of the chunk, or number of connections; else null
      A listening event also has address, target and seed; ended has totals.

    Examples:
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --delay 20ms --cut-every 5s
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --lose 1 --reorder 1 --seed 42
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --stall-every 10s --duration 1min
    """
    here, there = _address(listen, "LISTEN"), _address(target, "TARGET")
    from qmgr_proxy import run as proxy_run  # The import takes 60 ms, too long for --help.
    from qmgr_proxy.fault import Faults
    from qmgr_proxy.outages import Outages
    from qmgr_proxy.pipe import Shape

    try:
        faults = Faults(lose, double, reorder)
    except ValueError as error:
        raise usage("cannot damage chunks as requested", str(error)) from None
    outages = Outages(cut_every, refuse_for, stall_every, stall_for or STALL_MS)
    seed = Random().randint(0, SEED_MAX) if seed is None else seed
    plan = proxy_run.Plan(here, there, Shape(delay, rate), faults, outages, seed, duration)
    proxy_run.run(plan, is_json=call.is_json)


def _address(text: str, name: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise usage(f"{name} is not a valid address", str(error), "use HOST:PORT") from None
