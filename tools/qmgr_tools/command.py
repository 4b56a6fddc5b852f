"""What all commands share: the options --connect, --data-dir and -o, and how they end."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools import target
from qmgr_tools.failure import Exit, Failure, look_for, refused, sent_away, usage
from qmgr_tools.output import Format

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Connect = Annotated[
    str | None,
    typer.Option(
        "--connect", "-c", metavar="ADDRESS", show_default=False,
        help="HOST:PORT or unix:/PATH; else QMCTL_CONNECT, else 127.0.0.1:7470.",
    ),
]  # fmt: skip
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", show_default=False,
        help="The daemon's data directory; it tells where the daemon listens.",
    ),
]  # fmt: skip
Output = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", show_default=False, help="For people (the default) or for scripts."
    ),
]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"qmctl/{metadata.version('qmgrd')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]

GIVE_UP_MS = 5_000  # on a connection that is lost: what is under way is sent again until then


@dataclass(frozen=True, slots=True)
class Call:
    """What a command is told beside its own arguments."""

    connect: str | None = None
    data_dir: Path | None = None
    output: Format | None = None

    @property
    def is_json(self) -> bool:
        """Whether the result is for scripts."""
        return self.output is Format.JSON

    def address(self) -> str:
        """Return where to connect to."""
        return target.address(self.connect, self.data_dir, os.environ)

    def over(self, other: "Call") -> "Call":
        """Return this call, completed by what *other* says: the options before the command."""
        said = self.connect is not None or self.data_dir is not None
        where = self if said else other
        return Call(where.connect, where.data_dir, self.output or other.output)

    @contextmanager
    def client(self, doing: str, known: str = "") -> Iterator["Client"]:
        """Connect, and turn what goes wrong while *doing* something into a Failure.

        Args:
            doing: what is done, as in "get from ORDERS".
            known: a queue that is taken to be there; where it is not, ones like it are looked for.
        """
        address = self.address()
        # Takes 60 ms: not for --help.
        from qmgr_client.blocking import ConnectFailed, connect
        from qmgr_client.client_name import client_name

        client = connect(address, name=client_name("qmctl"), give_up_ms=GIVE_UP_MS)
        try:
            client.open()
        except ConnectFailed as error:
            why = f"cannot connect to {error.address}: {error.why}"
            remedy = f"{error.hint} --connect says where else"
            raise Failure(Exit.UNAVAILABLE, f"cannot {doing}", why, remedy) from error
        except RequestError as error:
            raise sent_away(doing, address, error) from error
        with closing(client):
            try:
                yield client
            except RequestError as error:
                is_missed = known and error.code == ErrorCode.QUEUE_UNKNOWN
                better = look_for(known, _queues(client)) if is_missed else ""
                raise refused(doing, error, better) from error


def _queues(client: "Client") -> list[str]:
    """Return the names of the queues that people make, as far as the daemon tells."""
    try:
        rows = client.queue_list()
    except RequestError:
        return []
    return [str(row["queue"]) for row in rows if row.get("kind") != "transmission"]


def command(
    app: typer.Typer, name: str, more_help: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a function the command *name*, with the shared options.

    The function takes a Call, then its own parameters. Its docstring is the help.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def run(
            ctx: typer.Context,
            connect: Connect = None,
            data_dir: DataDir = None,
            output: Output = None,
            **own: Any,
        ) -> None:
            before = ctx.find_root().obj or Call()
            function(Call(connect, data_dir, output).over(before), **own)

        shared = list(inspect.signature(run).parameters.values())[:-1]
        own = list(inspect.signature(function).parameters.values())[1:]
        both = [p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *shared)]
        # Typer reads both.
        run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in both}
        text = f"{inspect.getdoc(function)}\n\n{more_help}".rstrip()
        first = " ".join(text.partition("\n\n")[0].split())
        # Click's own summary ends in the middle of a sentence.
        app.command(name, help=text, short_help=first)(run)
        return function

    return decorate


def shared_options(
    ctx: typer.Context, connect: Connect = None, data_dir: DataDir = None, output: Output = None,
    version: Version = False,
) -> None:  # fmt: skip
    """Take the shared options where they stand before the command."""
    del version  # It has been seen to already.
    ctx.obj = Call(connect, data_dir, output)


def confirm(name: str, doing: str, loss: str, *, yes: bool) -> None:
    """Have people type *name* before *doing* what cannot be undone, unless *yes*.

    Raises:
        Failure: USAGE without a terminal, FAILED where something else was typed.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise usage(
            f"will not {doing} unasked", f"{loss}, and no terminal is here to confirm it",
            "say --yes",
        )  # fmt: skip
    print(f"This will {doing}: {loss}.", file=sys.stderr)
    question = f"Type {name} to go on (--yes does not ask)"
    typed = typer.prompt(question, default="", show_default=False, err=True)
    if typed != name:
        raise Failure(Exit.FAILED, f"did not {doing}", f"{typed!r} is not {name}")
