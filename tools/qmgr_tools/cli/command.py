"""The base of all commands: connection options, -o and --watch, and failures."""

import inspect
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.models import OptionInfo

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import connect_options, connect_retry, help_text, watch
from qmgr_tools.cli.call_option import (
    AsJson,
    Connect,
    Context,
    DataDir,
    Output,
    PasswordFile,
    TokenFile,
    User,
    Version,
)
from qmgr_tools.cli.failure import (
    Exit,
    Failure,
    NotListening,
    connection_refused,
    refused,
    similar_queue,
    usage,
)
from qmgr_tools.cli.output import Format
from qmgr_tools.context import target
from qmgr_tools.context import tls as tls_options
from qmgr_tools.context import user as users
from qmgr_tools.context.file import KeptTls

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.credentials import Login

WHERE = {"connect", "data_dir", "context"}
LOGIN = {"login_user", "login_file", "login_token"}
LOGIN_NAMES = {"user", "password_file"}  # parameters of commands whose options have these names
NO_ALIASES: Mapping[str, str] = {}
MISSING = re.compile(r"queue (\S+) does not exist here")
RETRY_S = 0.1  # pause between attempts while a daemon starts
GIVE_UP_MS = 5_000  # time during which qmctl tries to reconnect


@dataclass(frozen=True, slots=True)
class Call:
    """The shared options of a command."""

    connect: str | None = None
    data_dir: Path | None = None
    output: Format | None = None
    context: str | None = None
    watch_s: float | None = None
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    login: "Login | None" = None  # of a pinned call
    tls: KeptTls | None = None  # of a pinned call

    @property
    def is_json(self) -> bool:
        """Whether the result is for scripts."""
        return self.output is Format.JSON

    @property
    def given(self) -> str:
        """The option with the address as typed; empty if none is given."""
        given = {"-c": self.connect, "--data-dir": self.data_dir, "--context": self.context}
        options = (f"{key} {shlex.quote(str(v))}" for key, v in given.items() if v is not None)
        return " ".join(options)

    def address(self) -> str:
        """Returns the address to connect to."""
        return self.target().address

    def target(self) -> target.Target:
        """Returns the address to connect to, and the setting that named the address."""
        found = target.find(self.connect, self.data_dir, self.context, os.environ)
        return found if self.tls is None else replace(found, tls=self.tls)

    def where(self) -> dict[str, str | None]:
        """Returns the address and its context, for scripts."""
        found = self.target()
        return {"context": found.context or None, "address": found.address}

    def credentials(self, doing: str) -> "Login | None":
        """Returns the token, or the user with the password, or None. May ask for the password.

        Raises:
            Failure: USAGE if the password is required, and there is no terminal to ask for it.
        """
        if self.login is not None:
            return self.login
        # A daemon's own data directory has no login.
        kept = self.target().login if self.data_dir is None else None
        given = users.Given(self.user, self.password_file, self.token_file)
        users.note_ignored(given, kept, os.environ)
        return users.find(doing, given, kept, os.environ)

    def pinned(self, doing: str) -> "Call":
        """Returns this call with its current address and user, even if the context changes later.

        The user is asked for the password at most once.
        """
        fixed = replace(self, login=self.credentials(doing))
        if self.data_dir is not None:  # A restarted daemon writes its new address there.
            return fixed
        found = self.target()
        return replace(fixed, connect=found.address, context=None, tls=found.tls)

    def over(self, other: "Call") -> "Call":
        """Returns this call. Values that it lacks come from *other*, given before the command."""
        given = (self.connect, self.data_dir, self.context)
        where = other if all(value is None for value in given) else self
        own = (self.user, self.password_file, self.token_file)
        login = other if all(value is None for value in own) else self
        return replace(
            self,
            connect=where.connect,
            data_dir=where.data_dir,
            context=where.context,
            output=self.output or other.output,
            user=login.user,
            password_file=login.password_file,
            token_file=login.token_file,
        )

    @contextmanager
    def client(
        self,
        doing: str,
        known: str = "",
        give_up_ms: int = GIVE_UP_MS,
        patience_ms: int | None = None,
    ) -> Iterator["Client"]:
        """Connects, and turns errors while *doing* something into a Failure.

        Args:
            doing: The task, as in "get from ORDERS".
            known: The queue that the command names. If the queue does not exist, the failure
                suggests similar names.
            give_up_ms: The time during which the client tries to reconnect.
            patience_ms: The time for which an address is retried if no daemon listens there.
                None means connect_retry.patience_ms.
        """
        wait_ms = connect_retry.patience_ms(os.environ) if patience_ms is None else patience_ms
        login = self.credentials(doing)
        client = connect_retry.retried(lambda: self._connected(doing, give_up_ms, login), wait_ms)
        with closing(client):
            try:
                yield client
            except RequestError as error:
                better = _suggestion(client, known, error) if known else ""
                raise refused(doing, error, better) from error

    def _connected(self, doing: str, give_up_ms: int, login: "Login | None") -> "Client":
        """Returns a connected client, or raises a Failure."""
        found = self.target()
        # The import takes 60 ms, too long for --help.
        from qmgr_client.blocking import ConnectFailed, connect
        from qmgr_client.client_name import client_name

        try:
            client = connect(
                found.address,
                name=client_name("qmctl"),
                give_up_ms=give_up_ms,
                **users.arguments(login),
                **tls_options.arguments(found.tls),
            )
        except ValueError as error:  # A token would be sent to another machine in plain text.
            raise usage(f"cannot {doing}", str(error)) from None
        try:
            client.open()
        except ConnectFailed as error:
            if error.code:
                refusal = RequestError(error.code, error.why)
                raise connection_refused(doing, error.address, refusal) from error
            why = f"cannot connect to {error.address}: {error.why}"
            where = f"the address is from context {found.context}; " if found.context else ""
            remedy = tls_options.remedy(found.address, error.why)
            remedy = remedy or f"{error.hint} {where}to use another address: --connect"
            if connect_retry.is_nobody(error.why):
                raise NotListening(f"cannot {doing}", why, remedy) from error
            raise Failure(Exit.UNAVAILABLE, f"cannot {doing}", why, remedy) from error
        except RequestError as error:
            raise connection_refused(doing, found.address, error) from error
        return client

    def check(self, doing: str, wait_ms: int | None = None) -> None:
        """Raises a Failure if no daemon answers within *wait_ms* (None: the usual time).

        With *wait_ms*, failed connections are retried for any reason.
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
                time.sleep(min(left_s, RETRY_S))


def _suggestion(client: "Client", known: str, error: RequestError) -> str:
    """Returns a remedy if *error* reports that *known* or another queue does not exist."""
    missing = MISSING.match(error.text)
    if error.code != ErrorCode.QUEUE_UNKNOWN or missing is None:
        return ""
    name = missing[1]
    if name == known:
        return similar_queue(name, _queues(client))
    # The target is missing. The daemon's remedy is to create it.
    better = similar_queue(name, (queue for queue in _queues(client) if queue != known))
    return better if "did you mean" in better else ""


def _queues(client: "Client") -> list[str]:
    """Returns the names of all queues except transmission queues, or none if refused."""
    try:
        rows = client.admin.queue_list()
    except RequestError:
        return []
    return [str(row["queue"]) for row in rows if row.get("kind") != "transmission"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, which is a function with the shared options.

    The function accepts a Call, then its own parameters. The function's docstring, followed by
    *more_help*, is the help. Examples at the end of the docstring are shown below the options. A
    *watched* command shows its result with watch.follow and has --watch. A *local* command does not
    connect. A command with an own option --user or --password-file accepts the options of the login
    only before the command. *options* are added after the function's own parameters, and passed to
    its ** parameter.
    """

    function: Callable[..., None]
    more_help: str = ""
    watched: bool = False
    local: bool = False
    options: tuple[inspect.Parameter, ...] = ()

    @property
    def docstring(self) -> str:
        """The help text, with examples at the end."""
        return inspect.getdoc(self.function) or ""

    def add_to(
        self, app: typer.Typer, name: str, section: str | None = None, *, hidden: bool = False
    ) -> None:
        """Adds this as the command *name* of *app*, listed in *section* of the help.

        Help and completion omit a *hidden* command.
        """
        above, examples = help_text.parts(self.docstring, self.more_help)
        # Click's own summary may end in the middle of a sentence.
        first = " ".join(above.partition("\n\n")[0].split())
        kind = watch.WatchCommand if self.watched else help_text.HelpCommand
        add = app.command(
            name,
            cls=kind,
            help=above,
            epilog=examples,
            short_help=first,
            rich_help_panel=section,
            hidden=hidden,
        )
        add(self._with_options())

    def _with_options(self) -> Callable[..., None]:
        """Returns a function whose signature and annotations Typer can read."""

        def run(
            ctx: typer.Context,
            watch_s: watch.Watch = None,
            connect: Connect = None,
            data_dir: DataDir = None,
            context: Context = None,
            login_user: User = None,
            login_file: PasswordFile = None,
            login_token: TokenFile = None,
            output: Output = None,
            as_json: AsJson = False,
            **own: Any,
        ) -> None:
            before = ctx.find_root().obj or Call()
            form = _format(output, as_json=as_json)
            login = login_user, login_file, login_token
            call = Call(connect, data_dir, form, context, watch_s, *login)
            call = call.over(before)
            with connect_options.in_use(call.given):
                self.function(call, **own)

        not_taken = {"own"} | (set() if self.watched else {"watch_s"})
        not_taken |= WHERE | LOGIN if self.local else set()
        shared = inspect.signature(run).parameters.values()
        own = list(inspect.signature(self.function).parameters.values())[1:]
        if any(parameter.name in LOGIN_NAMES and _is_option(parameter) for parameter in own):
            # One of these options has another meaning here, so both must precede the command.
            not_taken |= LOGIN
        own = [*(p for p in own if p.kind is not p.VAR_KEYWORD), *self.options]
        taken = [*own, *(p for p in shared if p.name not in not_taken)]
        both = [p.replace(kind=p.KEYWORD_ONLY) for p in taken]
        run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in both}
        return run


def _is_option(parameter: inspect.Parameter) -> bool:
    """Returns whether a parameter of a command is an option, not an argument."""
    found = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(info, OptionInfo) for info in found)


def command(
    more_help: str = "",
    *,
    watched: bool = False,
    local: bool = False,
    options: tuple[inspect.Parameter, ...] = (),
) -> Callable[[Callable[..., None]], Command]:
    """Returns a decorator that makes a function a Command."""
    return lambda function: Command(function, more_help, watched, local, options)


def group(
    about: str, more_help: str = "", *, aliases: Mapping[str, str] = NO_ALIASES, **commands: Command
) -> typer.Typer:
    """Returns *commands* as a group. The help begins with *about* and the commands' names.

    Args:
        aliases: The current names of commands by former name. Former names work, but are hidden.
    """
    first = f"{about}: {', '.join(commands)}."
    firsts = (help_text.first_example(found.docstring) for found in commands.values())
    examples = "\n".join(["\b", "Examples:", *filter(None, firsts)])
    app = typer.Typer(
        cls=help_text.HelpGroup,
        help=f"{first}\n\n{more_help}".rstrip(),
        epilog=examples,
        short_help=first,
        no_args_is_help=True,
    )
    for name, found in commands.items():
        found.add_to(app, name)
    for former, name in aliases.items():
        commands[name].add_to(app, former, hidden=True)
    return app


def shared_options(
    ctx: typer.Context,
    connect: Connect = None,
    data_dir: DataDir = None,
    context: Context = None,
    login_user: User = None,
    login_file: PasswordFile = None,
    login_token: TokenFile = None,
    output: Output = None,
    as_json: AsJson = False,
    version: Version = False,
) -> None:
    """Accepts the shared options in front of the command."""
    del version  # The option's callback has handled it.
    form = _format(output, as_json=as_json)
    login = login_user, login_file, login_token
    ctx.obj = Call(connect, data_dir, form, context, None, *login)


def _format(output: Format | None, *, as_json: bool) -> Format | None:
    """Returns the format that -o and --json select.

    Raises:
        Failure: USAGE if the two options contradict each other.
    """
    if as_json and output is Format.TABLE:
        raise usage(
            "conflicting options", "-o table and --json exclude each other", "use one of them"
        )
    return Format.JSON if as_json else output


def confirm(name: str, doing: str, loss: str, *, yes: bool) -> None:
    """Asks the user to type *name* before *doing* something irreversible, unless *yes*.

    Raises:
        Failure: USAGE if there is no terminal, FAILED if the user typed something else.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise usage(
            f"did not {doing}",
            f"{loss}, and there is no terminal to ask for confirmation",
            "to confirm, add --yes",
        )
    print(f"This will {doing}: {loss}.", file=sys.stderr)
    question = f"Type {name} to confirm (--yes skips this question)"
    typed = typer.prompt(question, default="", show_default=False, err=True)
    if typed != name:
        raise Failure(Exit.FAILED, f"did not {doing}", f"you typed {typed!r}, not {name}")
