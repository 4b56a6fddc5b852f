"""qmctl top: shows live activity on a full screen or, for scripts, as tables."""

import os
import sys
import time
from enum import StrEnum
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import option, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_tools.top.model import Frame, Sample

DELAY_MIN_S = 0.1


class ViewName(StrEnum):
    """The values of --view."""

    QUEUES = "queues"
    LINKS = "links"
    CONNECTIONS = "connections"


@command()
def top(
    call: Call,
    view: Annotated[
        ViewName | None,
        typer.Option(help="The first view, or with --batch the only view.", show_default=False),
    ] = None,
    delay: Annotated[
        float,
        typer.Option(
            "--delay",
            "-d",
            metavar="TIME",
            parser=option.seconds,
            help='Time between updates, as in "10s"; at least 100 ms.',
            show_default="2s",
        ),
    ] = 2.0,
    batch: Annotated[
        bool, typer.Option("--batch", "-b", help="Print tables, for scripts or without a terminal.")
    ] = False,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "-n",
            metavar="N",
            min=1,
            show_default=False,
            help="With --batch: print N times, then end. Default: once.",
        ),
    ] = None,
) -> None:
    """Watch queues, links and connections: their rates and backlogs.

    Keys: 1, 2, 3 or tab change the view, < > and r change the order, / filters, p pauses, enter
    shows the details of a row, ? shows all keys, q quits. If the connection is lost, the screen
    shows the loss and the command reconnects.

    With --batch, rates are measured between two updates, so the first output appears after --delay:
    qmctl top --batch -n 1 -d 10s.

    \b
    JSON: with --batch, an object on each line with
      head          as in "qmctl status", with put_rate, get_rate, ack_rate,
                    turn_rate (per second), cpu_percent and store_percent
      queues        as in "qmctl queue ls", with state, put_rate, get_rate,
                    ack_rate and trend (the depth at each update)
      links         as in "qmctl link ls", with direction (out, in) and rate
      connections   as in "qmctl connection ls"
    Unknown rates are null.

    Examples:
      qmctl top
      qmctl top --view links --delay 500ms
      qmctl --context nyc top --batch --count 6 --delay 10s -o json
    """
    delay = max(delay, DELAY_MIN_S)
    if batch:
        _print(call, view, delay, count or 1)
        return
    _check_screen(call, count)
    doing = "watch the queue manager"
    call = call.pinned(doing)
    call.check(doing)
    from qmgr_tools.top.app import TopApp  # takes 400 ms, too long for other commands
    from qmgr_tools.top.feed import Feed

    app = TopApp(Feed(call.address, login=call.login, tls=call.tls), delay, view or ViewName.QUEUES)
    app.run()
    if app.return_code:
        raise typer.Exit(app.return_code)


def _check_screen(call: Call, count: int | None) -> None:
    """Raises a Failure with USAGE if a full screen is not wanted or not possible."""
    what, remedy = "cannot show a full screen", "use --batch"
    if call.is_json or count is not None:
        option_name = "-o json" if call.is_json else "--count"
        raise usage(what, f"{option_name} requires --batch", remedy)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise usage(what, "input or output is not a terminal", remedy)
    if os.environ.get("TERM") == "dumb":
        raise usage(what, "the terminal does not support a full screen (TERM=dumb)", remedy)


def _print(call: Call, view: ViewName | None, delay: float, count: int) -> None:
    from qmgr_tools.top.model import Model  # The import would slow down --help.

    model = Model()
    with call.client("watch the queue manager") as client:
        where = call.where()
        model.take(_sample(client))
        for number in range(count):
            time.sleep(delay)
            frame = model.take(_sample(client))
            if call.is_json:
                output.line({"head": where | frame.head, **_shown(frame, view)})
            else:
                _tables(frame, view, is_first=not number)
            sys.stdout.flush()


def _sample(client: "Client") -> "Sample":
    from qmgr_tools.top.feed import sample_of

    return sample_of(
        client.admin.status(),
        client.admin.queue_list(),
        client.admin.link_list(),
        client.admin.connection_list(),
    )


def _shown(frame: "Frame", view: ViewName | None) -> dict[str, list[dict[str, Any]]]:
    return {name: rows for name, rows in frame.rows.items() if view is None or name == view}


def _tables(frame: "Frame", view: ViewName | None, *, is_first: bool) -> None:
    """Prints the head, then a table for each view that has rows."""
    from qmgr_tools.top.view import HEAD, TREND, VIEWS, fit, ordered

    room = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize

    if not is_first:
        print()
    output.facts(HEAD, frame.head)
    for name, rows in _shown(frame, view).items():
        if rows or view is not None:
            shown = VIEWS[name]
            columns = [column for column in fit(shown, rows, room).columns if column.key != TREND]
            print()
            first = shown.columns[0].key
            output.table(columns, ordered(rows, first, shown.key, falls=False))
