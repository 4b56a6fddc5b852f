"""qmctl proxy: simulates a bad network in front of a queue manager."""

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
    str,
    typer.Argument(
        metavar="LISTEN", show_default=False, help="The address to listen at, HOST:PORT."
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", show_default=False, help="The address to connect to, HOST:PORT."
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
    delay: Annotated[int, _time("Delay all bytes in each direction.")] = 0,
    rate: Annotated[
        int,
        typer.Option(
            metavar="SIZE",
            parser=option.size,
            show_default=False,
            help="Maximum bytes per second, in each direction of each connection.",
        ),
    ] = 0,
    cut_every: Annotated[int, _time("Average time between cuts of all connections.")] = 0,
    refuse_for: Annotated[int, _time("After a cut, refuse connections for this time.")] = 0,
    stall_every: Annotated[int, _time("Average time between stalls, which pass no bytes.")] = 0,
    stall_for: Annotated[int, _time("Length of a stall. Default: 2s.")] = 0,
    lose: Annotated[float, _percent("Percentage of chunks to lose.")] = 0,
    double: Annotated[float, _percent("Percentage of chunks to pass twice.")] = 0,
    reorder: Annotated[float, _percent("Percentage of chunks to swap with the next.")] = 0,
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
    duration: Annotated[int, _time("End after this time. Default: at Ctrl-C.")] = 0,
) -> None:
    """Forward connections to TARGET like a bad network: with delays, cuts, stalls and damage.

    For tests of applications and links. A chunk is the result of one read, up to 256 KiB. Lost,
    doubled or swapped bytes break a connection, but must not lose or duplicate messages. The proxy
    prints each action, and totals at the end.

    \b
    JSON: one line for each action, an object with
      ms            since the start
      what          listening, opened, closed, target not reached, cut,
                    accepting again, stalled, passing again, lost, doubled,
                    reordered, ended
      connection    its number, from 0; null: all
      way           forth (to TARGET), back; null: both
      count         bytes of a chunk; connections; else null
      listening also has address, target, seed; ended has totals, an object

    Examples:
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --delay 20ms --cut-every 5s
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --lose 1 --reorder 1 --seed 42
      qmctl proxy 127.0.0.1:7480 127.0.0.1:7470 --stall-every 10s --duration 1min
    """
    here, there = _address(listen, "LISTEN"), _address(target, "TARGET")
    from qmgr_tools.proxy import run as proxy_run  # takes 60 ms: not for --help
    from qmgr_tools.proxy.fault import Faults
    from qmgr_tools.proxy.outages import Outages
    from qmgr_tools.proxy.pipe import Shape

    try:
        faults = Faults(lose, double, reorder)
    except ValueError as error:
        raise usage("invalid --lose, --double or --reorder", str(error)) from None
    outages = Outages(cut_every, refuse_for, stall_every, stall_for or STALL_MS)
    seed = Random().randint(0, SEED_MAX) if seed is None else seed
    plan = proxy_run.Plan(here, there, Shape(delay, rate), faults, outages, seed, duration)
    proxy_run.run(plan, is_json=call.is_json)


def _address(text: str, name: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise usage(f"{name} is not an address", str(error), "use HOST:PORT") from None
