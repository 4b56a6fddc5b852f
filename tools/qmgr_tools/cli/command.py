"""What all commands share: where they connect to, -o and --watch, and how they end."""

import inspect
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import completion, help_text, same_place, starting, watch
from qmgr_tools.cli.failure import Exit, Failure, NotListening, look_for, refused, sent_away, usage
from qmgr_tools.cli.output import Format
from qmgr_tools.context import target

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Connect = Annotated[
    str | None,
    typer.Option(
        "--connect",
        "-c",
        metavar="ADDRESS",
        show_default=False,
        help="Where to: HOST:PORT or unix:/PATH.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        show_default=False,
        autocompletion=completion.files,
        help="Or the data directory of a local daemon.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        show_default=False,
        autocompletion=completion.contexts,
        help="Or a name for it; see: qmctl context --help.",
    ),
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", show_default=False, help="For people (the default) or for scripts."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]


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

WHERE = {"connect", "data_dir", "context"}
MISSING = re.compile(r"queue (\S+) does not exist here")
ASK_AGAIN_S = 0.1  # of a daemon that is starting
GIVE_UP_MS = 5_000  # on a connection that is lost: what is under way is sent again until then


@dataclass(frozen=True, slots=True)
class Call:
    """What a command is told beside its own arguments."""

    connect: str | None = None
    data_dir: Path | None = None
    output: Format | None = None
    context: str | None = None
    watch_s: float | None = None

    @property
    def is_json(self) -> bool:
        """Whether the result is for scripts."""
        return self.output is Format.JSON

    @property
    def given(self) -> str:
        """What says where to connect to, as it is typed; nothing where no option does."""
        said = {"-c": self.connect, "--data-dir": self.data_dir, "--context": self.context}
        options = (f"{key} {shlex.quote(str(v))}" for key, v in said.items() if v is not None)
        return " ".join(options)

    def address(self) -> str:
        """Return where to connect to."""
        return self.target().address

    def target(self) -> target.Target:
        """Return what to connect to, and what named it."""
        return target.find(self.connect, self.data_dir, self.context, os.environ)

    def where(self) -> dict[str, str | None]:
        """Return the address, and the context that it is of, for scripts."""
        found = self.target()
        return {"context": found.context or None, "address": found.address}

    def held(self) -> "Call":
        """Return this call, with the address that it has now, whatever becomes of the context."""
        if self.data_dir is not None:  # It tells where a daemon listens that was started anew.
            return self
        return replace(self, connect=self.address(), context=None)

    def over(self, other: "Call") -> "Call":
        """Return this call, completed by what *other* says: the options before the command."""
        said = (self.connect, self.data_dir, self.context)
        where = other if all(value is None for value in said) else self
        return replace(
            self,
            connect=where.connect,
            data_dir=where.data_dir,
            context=where.context,
            output=self.output or other.output,
        )

    @contextmanager
    def client(
        self,
        doing: str,
        known: str = "",
        give_up_ms: int = GIVE_UP_MS,
        patience_ms: int | None = None,
    ) -> Iterator["Client"]:
        """Connect, and turn what goes wrong while *doing* something into a Failure.

        Args:
            doing: what is done, as in "get from ORDERS".
            known: a queue that is taken to be there. Where one is not, ones like it are looked for.
            give_up_ms: for how long a connection that is lost is tried again.
            patience_ms: for how long a place where nobody listens is; None: starting.patience_ms.
        """
        wait_ms = starting.patience_ms(os.environ) if patience_ms is None else patience_ms
        client = starting.waited(lambda: self._dialled(doing, give_up_ms), wait_ms)
        with closing(client):
            try:
                yield client
            except RequestError as error:
                better = _meant(client, known, error) if known else ""
                raise refused(doing, error, better) from error

    def _dialled(self, doing: str, give_up_ms: int) -> "Client":
        """Return a client that is connected, or raise a Failure."""
        found = self.target()
        # Takes 60 ms: not for --help.
        from qmgr_client.blocking import ConnectFailed, connect
        from qmgr_client.client_name import client_name

        client = connect(found.address, name=client_name("qmctl"), give_up_ms=give_up_ms)
        try:
            client.open()
        except ConnectFailed as error:
            why = f"cannot connect to {error.address}: {error.why}"
            where = f"that is context {found.context}; " if found.context else ""
            remedy = f"{error.hint} {where}--connect says where else"
            if error.why in starting.NOBODY:
                raise NotListening(f"cannot {doing}", why, remedy) from error
            raise Failure(Exit.UNAVAILABLE, f"cannot {doing}", why, remedy) from error
        except RequestError as error:
            raise sent_away(doing, found.address, error) from error
        return client

    def check(self, doing: str, wait_ms: int | None = None) -> None:
        """Raise a Failure where nobody answers within *wait_ms*; None: as commands wait.

        Whatever the reason, a connection that fails is tried again until then.
        """
        if wait_ms is None:
            with self.client(doing):
                return
        until_s = time.monotonic() + wait_ms / 1000
        while True:
            try:
                with self.client(doing, patience_ms=0):
                    return
            except Failure as failure:
                left_s = until_s - time.monotonic()
                if failure.exit_code is not Exit.UNAVAILABLE or left_s <= 0:
                    raise
                time.sleep(min(left_s, ASK_AGAIN_S))


def _meant(client: "Client", known: str, error: RequestError) -> str:
    """Return what to try where *error* says that a queue is missing: *known*, or another one."""
    missing = MISSING.match(error.text)
    if error.code != ErrorCode.QUEUE_UNKNOWN or missing is None:
        return ""
    name = missing[1]
    if name == known:
        return look_for(name, _queues(client))
    # The one that is there is not meant twice; and what is to be filled may be made first.
    better = look_for(name, (queue for queue in _queues(client) if queue != known))
    return better if "did you mean" in better else ""


def _queues(client: "Client") -> list[str]:
    """Return the names of the queues that people make, as far as the daemon tells."""
    try:
        rows = client.admin.queue_list()
    except RequestError:
        return []
    return [str(row["queue"]) for row in rows if row.get("kind") != "transmission"]


@dataclass(frozen=True, slots=True)
class Command:
    """A function that is a command, with the shared options.

    It takes a Call, then its own parameters. Its docstring is the help, in front of *more_help*;
    the examples at its end go below the options. One that is *watched* shows what it does by
    watch.follow and has --watch; a *local* one connects to nothing. Its *options* come behind its
    own parameters, and reach it by its last one, which is ** then.
    """

    function: Callable[..., None]
    more_help: str = ""
    watched: bool = False
    local: bool = False
    options: tuple[inspect.Parameter, ...] = ()

    @property
    def docstring(self) -> str:
        """The help, and examples at its end."""
        return inspect.getdoc(self.function) or ""

    def add_to(self, app: typer.Typer, name: str, section: str | None = None) -> None:
        """Make this the command *name* of *app*; the help lists it in that *section*."""
        above, examples = help_text.parts(self.docstring, self.more_help)
        # Click's own summary ends in the middle of a sentence.
        first = " ".join(above.partition("\n\n")[0].split())
        kind = watch.Command if self.watched else help_text.Command
        add = app.command(
            name, cls=kind, help=above, epilog=examples, short_help=first, rich_help_panel=section
        )
        add(self._with_options())

    def _with_options(self) -> Callable[..., None]:
        """Return what Typer is to call; it reads signature and annotations."""

        def run(
            ctx: typer.Context,
            watch_s: watch.Watch = None,
            connect: Connect = None,
            data_dir: DataDir = None,
            context: Context = None,
            output: Output = None,
            as_json: AsJson = False,
            **own: Any,
        ) -> None:
            before = ctx.find_root().obj or Call()
            call = Call(connect, data_dir, _format(output, as_json=as_json), context, watch_s)
            call = call.over(before)
            with same_place.given(call.given):
                self.function(call, **own)

        not_taken = {"own"} | (set() if self.watched else {"watch_s"})
        not_taken |= WHERE if self.local else set()
        shared = inspect.signature(run).parameters.values()
        own = list(inspect.signature(self.function).parameters.values())[1:]
        own = [*(p for p in own if p.kind is not p.VAR_KEYWORD), *self.options]
        taken = [*own, *(p for p in shared if p.name not in not_taken)]
        both = [p.replace(kind=p.KEYWORD_ONLY) for p in taken]
        run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in both}
        return run


def command(
    more_help: str = "",
    *,
    watched: bool = False,
    local: bool = False,
    options: tuple[inspect.Parameter, ...] = (),
) -> Callable[[Callable[..., None]], Command]:
    """Return a decorator that makes a function a Command."""
    return lambda function: Command(function, more_help, watched, local, options)


def group(about: str, more_help: str = "", **commands: Command) -> typer.Typer:
    """Return *commands* as a group; its help begins with *about* and their names."""
    first = f"{about}: {', '.join(commands)}."
    firsts = (help_text.first_example(found.docstring) for found in commands.values())
    examples = "\n".join(["\b", "Examples:", *filter(None, firsts)])
    app = typer.Typer(
        cls=help_text.Group,
        help=f"{first}\n\n{more_help}".rstrip(),
        epilog=examples,
        short_help=first,
        no_args_is_help=True,
    )
    for name, found in commands.items():
        found.add_to(app, name)
    return app


def shared_options(
    ctx: typer.Context,
    connect: Connect = None,
    data_dir: DataDir = None,
    context: Context = None,
    output: Output = None,
    as_json: AsJson = False,
    version: Version = False,
) -> None:
    """Take the shared options where they stand before the command."""
    del version  # It has been seen to already.
    ctx.obj = Call(connect, data_dir, _format(output, as_json=as_json), context)


def _format(output: Format | None, *, as_json: bool) -> Format | None:
    """Return what -o and --json say together.

    Raises:
        Failure: USAGE, they contradict each other.
    """
    if as_json and output is Format.TABLE:
        raise usage("cannot print both", "-o table and --json exclude each other", "give one")
    return Format.JSON if as_json else output


def confirm(name: str, doing: str, loss: str, *, yes: bool) -> None:
    """Have people type *name* before *doing* what cannot be undone, unless *yes*.

    Raises:
        Failure: USAGE without a terminal, FAILED where something else was typed.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise usage(
            f"will not {doing} unasked",
            f"{loss}, and no terminal is here to confirm it",
            "say --yes",
        )
    print(f"This will {doing}: {loss}.", file=sys.stderr)
    question = f"Type {name} to go on (--yes does not ask)"
    typed = typer.prompt(question, default="", show_default=False, err=True)
    if typed != name:
        raise Failure(Exit.FAILED, f"did not {doing}", f"{typed!r} is not {name}")
