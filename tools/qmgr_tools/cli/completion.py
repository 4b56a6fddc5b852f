"""Shell completion: names from the queue manager that the command line addresses.

Completion must never wait long or show an error, so names that do not arrive quickly are omitted.
"""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from qmgr_protocol import group_id
from qmgr_protocol.name import is_name
from qmgr_protocol.need import GRANTED_KINDS, GRANTED_RIGHTS
from qmgr_tools.context import file as context_file
from qmgr_tools.context import target
from qmgr_tools.context import tls as tls_options
from qmgr_tools.context import user as login_user

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

FILES = "%files%"  # placeholder for file names, which no other name contains
# Typer's own script makes bash offer files if there are no other completions.
BASH = """
%(complete_func)s() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" \\
                   COMP_CWORD=$COMP_CWORD \\
                   %(autocomplete_var)s=complete_bash $1 ) )
    if [[ "${COMPREPLY[0]}" == "@FILES@" ]]; then
        COMPREPLY=()
        compopt -o default
    fi
    return 0
}

complete -F %(complete_func)s %(prog_name)s
""".replace("@FILES@", FILES.replace("%", "%%"))
FISH_ASKS = "_TYPER_COMPLETE_FISH_ACTION"
VARIABLE = "_QMCTL_COMPLETE"
PATIENCE_S = 0.5
OFFERED_MAX = 1_000  # maximum number of groups or topics to offer
# The limit is low because the daemon computes the lag of each subscription.
SUBSCRIPTIONS_MAX = 200
# zsh evaluates completions, so names from a hostile daemon must contain only harmless characters.
_SUBSCRIPTION = re.compile(r"[A-Za-z0-9._~-]*[:.][A-Za-z0-9._-]+(@[A-Za-z0-9._-]+)?")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
# Bash splits words at these characters.
_BREAKS = re.compile("[@:=]+")
# After these words, @ or : begins a name. After other words, the character is within a name.
_VERBS = {
    "show",
    "browse",
    "delete",
    "purge",
    "put",
    "get",
    "create",
    "alter",
    "move",
    "copy",
    "rm",
    "healthy",
    "what-lacks",
    "--to",
    "--subscription",
}

# The module with the columns of a group's lists, if it is not GROUP.GROUP.
_LISTS = {
    "aside": "manager.aside",
    "connection": "manager.connection",
    "link": "link.show",
    "sub": "subscription.subscription",
    "template": "queue.template",
}


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of all queues and subscriptions. @NAME is a link's queue."""
    return [name for name, _ in _queues(ctx)] + subscriptions(ctx, incomplete)


def definitions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of all queues except transmission queues."""
    return [name for name, kind in _queues(ctx) if kind != "transmission"]


def local_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the queues and subscriptions that can be consumed."""
    known = [name for name, kind in _queues(ctx) if kind in ("local", "alias")]
    return known + subscriptions(ctx, incomplete)


def browsable_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the queues and subscriptions whose messages are stored here."""
    known = [name for name, kind in _queues(ctx) if kind != "remote"]
    return known + subscriptions(ctx, incomplete)


def subscriptions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the first SUBSCRIPTIONS_MAX subscriptions."""

    def ask(client: "Client") -> Sequence[Mapping[str, Any]]:
        return client.admin.subscription_list(limit=SUBSCRIPTIONS_MAX)

    found = (row.get("subscription") for row in _asked(ctx, ask) or ())
    return [name for name in found if isinstance(name, str) and _SUBSCRIPTION.fullmatch(name)]


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the topics that have attributes or a retained publication."""
    found = (
        row.get("topic")
        for row in _asked(ctx, lambda c: c.admin.topic_list(limit=OFFERED_MAX)) or ()
    )
    return [name for name in found if isinstance(name, str) and _TOPIC.fullmatch(name)]


def templates(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the patterns of the templates."""
    rows = _asked(ctx, lambda client: client.admin.template_list()) or ()
    patterns = (str(row.get("pattern")) for row in rows)
    return [pattern for pattern in patterns if is_name(pattern.replace("*", "-"))]


def new_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns NAME@LINK for each link if *incomplete* contains NAME@."""
    name, at, _ = incomplete.partition("@")
    return [f"{name}@{link}" for link in links(ctx, "")] if name and at else []


def links(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the outbound links."""
    found = _asked(ctx, lambda client: client.admin.link_list()) or {}
    return _names(row.get("link") for row in found.get("links", ()))


def peers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the outbound links, and of the managers with an inbound link."""
    found = _asked(ctx, lambda client: client.admin.link_list()) or {}
    named = [row.get("link") for row in found.get("links", ())]
    for inbound in ("inbound", "allowed", "refused"):
        named += [row.get("peer") for row in found.get(inbound, ())]
    return _names(dict.fromkeys(named))


def allowed(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the queue managers that are allowed to open inbound links."""
    found = _asked(ctx, lambda client: client.admin.link_list()) or {}
    return _names(row.get("peer") for row in found.get("allowed", ()))


def refused(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the queue managers whose inbound links were refused."""
    found = _asked(ctx, lambda client: client.admin.link_list()) or {}
    return _names(row.get("peer") for row in found.get("refused", ()))


def users(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the users."""
    rows = _asked(ctx, lambda client: client.admin.user_list()) or ()
    return _names(row.get("user") for row in rows)


def roles(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the roles."""
    rows = _asked(ctx, lambda client: client.admin.role_list()) or ()
    return _names(row.get("role") for row in rows)


def rights(incomplete: str) -> list[str]:
    """Returns the rights that can be granted, after the rights typed so far."""
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{right}" for right in GRANTED_RIGHTS]


def kinds(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the kinds of objects for which all rights exist that are typed before."""
    typed = str(ctx.params.get("rights") or next(iter(ctx.args), "")).split(",")
    fit = [
        kind
        for kind, possible in GRANTED_KINDS.items()
        if {*filter(None, typed)} <= {right.value for right in possible}
    ]
    return fit or [*GRANTED_KINDS]


def operations(incomplete: str) -> list[str]:
    """Returns the requests of the protocol."""
    from qmgr_protocol.messages import OPERATIONS

    return sorted(found.kind.__name__ for found in OPERATIONS.values() if found.request)


def fields(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the fields that name objects in the request that the command line names."""
    from qmgr_tools.auth import request_field

    operation = request_field.spelled(str(ctx.params.get("operation") or ""))
    known = request_field.fields(operation) or {}
    return [f"{name}=" for name in known]


def connections(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Returns the numbers of the open connections, each with the peer's name."""
    rows = _asked(ctx, lambda client: client.admin.connection_list()) or ()
    found = [(row.get("connection"), _names([row.get("name")])) for row in rows]
    return [(str(number), "".join(names)) for number, names in found if type(number) is int]


def jobs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Returns the numbers of the jobs, each with its kind and state."""
    rows = _asked(ctx, lambda client: client.admin.job_list()) or ()
    return [
        (str(row["job"]), "-".join(_names([row.get("kind"), row.get("state")])))
        for row in rows
        if type(row.get("job")) is int
    ]


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the first message groups of the queue that the command line names."""
    # If the last option has no value yet, Click has not assigned the arguments before it.
    queue = str(ctx.params.get("queue") or next(iter(ctx.args), ""))

    def ask(client: "Client") -> list[str]:
        return [_group(row["group"]) for row in islice(client.admin.groups(queue), OFFERED_MAX)]

    return _asked(ctx, ask) or []


def _group(digits: str) -> str:
    """Returns a group id in hexadecimal *digits* as text if the text is a valid name.

    Raises:
        ValueError: If *digits* are not hexadecimal.
    """
    found = bytes.fromhex(digits)
    text = group_id.shown(found)
    return text if is_name(text) else found.hex()


def contexts(incomplete: str) -> list[tuple[str, str]]:
    """Returns the names of the contexts, each with its address."""
    with suppress(Exception):  # The command itself reports an unreadable file.
        return sorted(context_file.load(os.environ).addresses.items())
    return []


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the columns of the command's list, after the columns typed so far."""
    before, comma, _ = incomplete.rpartition(",")
    group = (ctx.parent.info_name if ctx.parent else "") or ""
    known = import_module(f"qmgr_tools.{_LISTS.get(group, f'{group}.{group}')}").COLUMNS
    return [f"{before}{comma}{column.key}" for column in known]


def files(incomplete: str) -> list[str]:
    """Returns the mark that makes the shell offer files."""
    return [incomplete + FILES]


def of_argument(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the completions of the command's argument, for an option with an optional value."""
    for parameter in ctx.command.params:
        if parameter.param_type_name == "argument":
            return [item.value for item in parameter.shell_complete(ctx, incomplete)]
    return []


def _queues(ctx: typer.Context) -> Iterator[tuple[str, str]]:
    for row in _asked(ctx, lambda client: client.admin.queue_list()) or ():
        for name in _names([row.get("queue")]):
            yield name, str(row.get("kind"))


def _names(found: Iterable[object]) -> list[str]:
    """Returns the valid names, because zsh evaluates completions from hostile daemons, too."""
    names = [name for name in found if isinstance(name, str)]
    return [name for name in names if all(map(is_name, name.removeprefix("@").split("@", 1)))]


def _asked(ctx: typer.Context, ask: "Callable[[Client], Any]") -> Any:
    """Returns the result of *ask*, or None after any error."""
    with suppress(Exception):  # Completion must not disturb the prompt.
        from qmgr_client.blocking import connect  # The import takes 60 ms.

        found = _target(ctx)
        given = login_user.Given(*_given(ctx, "login_user", "login_file", "login_token"))
        login = login_user.find("complete", given, found.login, os.environ, asks=False)
        options, tls = login_user.arguments(login), tls_options.arguments(found.tls)
        with _limited(), connect(found.address, give_up_ms=0, **options, **tls) as client:
            return ask(client)
    return None


def _target(ctx: typer.Context) -> target.Target:
    """Returns the address that the options after or before the command select."""
    connect, data_dir, context = _given(ctx, "connect", "data_dir", "context")
    return target.find(connect, data_dir, context, os.environ)


def _given(ctx: typer.Context, *names: str) -> list[Any]:
    """Returns the values of the options that are given after the command, or else before it."""
    for given in (ctx.params, ctx.find_root().params):
        found = [given.get(name) for name in names]
        if any(value is not None for value in found):
            break
    return found


@contextmanager
def _limited() -> Iterator[None]:
    """Ends the process if the block takes too long, even during a DNS lookup."""
    before = signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_wanted() -> bool:
    """Returns whether the shell asks for completions."""
    return os.environ.get(VARIABLE, "").startswith("complete_")


def answer(run: Callable[[], int]) -> int:
    """Prints the completions of *run* for the shell, hides errors, and returns the exit code."""
    kept = joined(os.environ) if os.environ[VARIABLE] == "complete_bash" else ""
    offered = StringIO()
    is_check = os.environ.get(FISH_ASKS) == "is-args"
    if is_check:
        os.environ[FISH_ASKS] = "get-args"  # The check needs the completions.
    try:
        with redirect_stdout(offered), redirect_stderr(StringIO()):
            code = run()
    except SystemExit as end:
        code = int(end.code or 0)
    return _print(offered.getvalue(), kept, code, is_check=is_check)


def _print(offered: str, kept: str, code: int, *, is_check: bool) -> int:
    """Prints the *offered* completions, or makes the shell offer files. Returns the exit code."""
    shell = os.environ[VARIABLE].removeprefix("complete_")
    is_of_files = FILES in offered
    if is_check:
        return int(is_of_files)  # If there are no arguments, fish offers files.
    if is_of_files:
        offered = {"bash": FILES, "zsh": "_files"}.get(shell, "")
    elif offered.strip() == "_files":  # Typer's default for zsh.
        offered = ""
    for line in filter(None, offered.splitlines()):
        sys.stdout.write(f"{line.removeprefix(kept)}\n")
    return code


def install() -> None:
    """Replaces Typer's completion script for bash with ours."""
    with suppress(ImportError, AttributeError):  # Another version of Typer keeps its own script.
        from typer import _completion_shared as shared

        shared._completion_scripts["bash"] = BASH


def joined(environment: MutableMapping[str, str]) -> str:
    """Joins the words that bash split at @ : and = in COMP_WORDS. Returns the part bash keeps.

    Bash replaces only the last piece of a split word, including an @ at its beginning. The part
    before that piece is returned.
    """
    words = environment.get("COMP_WORDS", "").split("\n")
    position = environment.get("COMP_CWORD", "")
    at = int(position) if re.fullmatch("[0-9]{1,9}", position) else 0
    whole: list[str] = []
    cursor, kept, is_open = 0, "", False
    for place, word in enumerate(words):
        is_break = bool(_BREAKS.fullmatch(word))
        is_begin = word.startswith(("@", ":")) and (not whole or whole[-1] in _VERBS)
        is_joined = whole and word and (is_open or (is_break and not is_begin))
        before = whole.pop() if is_joined else ""
        whole.append(before + word)
        is_open = is_break
        if place == at:
            cursor, kept = len(whole) - 1, before + (word if is_break else "")
    environment.update(COMP_WORDS="\n".join(whole), COMP_CWORD=str(cursor))
    return kept.removesuffix("@")
