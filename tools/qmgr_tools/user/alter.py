"""qmctl user: create, alter."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import RequestError
from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.link.allow import checked
from qmgr_tools.queue import attribute
from qmgr_tools.user import limits as user_limits
from qmgr_tools.user import new_password
from qmgr_tools.user.user import User, closed

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

NewUser = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="The name of the new user.")
]
Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        show_default=False,
        autocompletion=completion.roles,
        help="A role of the user; can be repeated. See: qmctl role ls",
    ),
]
QueueManager = Annotated[
    str,
    typer.Option(
        "--queue-manager",
        metavar="MANAGER",
        show_default=False,
        help="The queue manager whose links log in as this user. The user cannot act as another "
        "one, and no other user can act as MANAGER.",
    ),
]


@command(options=user_limits.options(takes_default=False))
def create(
    call: Call,
    name: NewUser,
    role: Roles = None,
    disable: Annotated[
        bool, typer.Option("--disable", help="Create the user, but do not let it log in.")
    ] = False,
    queue_manager: QueueManager = "",
    store_id: Annotated[
        str,
        typer.Option(
            metavar="HEX",
            show_default=False,
            help="Accept only this store of the queue manager: 32 digits from qmctl status there.",
        ),
    ] = "",
    password_file: new_password.File = None,
    generate: new_password.Generate = False,
    no_password: Annotated[
        bool,
        typer.Option(
            "--no-password",
            rich_help_panel=new_password.PANEL,
            help="Set no password. The user cannot log in until it has one.",
        ),
    ] = False,
    **limits: Any,
) -> None:
    """Create a user. By default, the command asks for the password on the terminal.

    The first user must have a password and the role administrator. From then on, all clients must
    log in, except root and the daemon's own user over the unix socket.

    The password is not sent to the queue manager, which stores only a verifier. To log in as
    another user for this command, give --user and --password-file before "user".

    With --queue-manager, the command also allows links from MANAGER, like "qmctl link
    allow". The first link pins the store of MANAGER, unless you give --store-id.

    \b
    JSON: an object as in "qmctl user ls", and
      password    the password, with --generate only

    Examples:
      qmctl user create admin --role administrator
      qmctl user create billing --role consumer --password-file billing.password
      qmctl user create app --generate
      qmctl user create app --generate --connections-max 10 --puts-per-s-max 1000
      qmctl user create EWR --role peer --queue-manager EWR --generate
    """
    doing = f"create user {name}"
    new_password.check(
        doing, password_file=password_file, generate=generate, no_password=no_password
    )
    if store_id and not queue_manager:
        raise usage(f"cannot {doing}", "--store-id needs --queue-manager")
    pinned = checked(queue_manager, store_id)
    password = ""
    with call.client(doing) as client:
        was_open = _is_open(client)
        if not no_password:
            password = new_password.find(doing, name, password_file, generate=generate)
        row: Any = client.admin.user_create(
            name,
            password,
            roles=role or (),
            enabled=not disable,
            limits=attribute.given(limits),
            queue_manager=queue_manager,
        )
        if queue_manager:
            client.admin.link_allow(queue_manager, pinned)
    words = f"created user {name}"
    words += f" with {'role' if len(row['roles']) == 1 else 'roles'} " if row["roles"] else ""
    words += output.listed(row["roles"])
    if queue_manager:
        words += f" for links of queue manager {queue_manager}, which are now allowed"
    if was_open:
        words += "; all clients must log in from now on"
    elif not row["roles"]:
        words += f"; to grant it rights: qmctl grant create --user {name} RIGHT KIND PATTERN"
    _show(call, row, words, password if generate else "")


@command(options=user_limits.options(takes_default=True))
def alter(
    call: Call,
    name: User,
    role: Roles = None,
    no_role: Annotated[
        bool, typer.Option("--no-role", help="Take all roles from the user.")
    ] = False,
    enable: Annotated[
        bool | None,
        typer.Option("--enable/--disable", show_default=False, help="Whether the user may log in."),
    ] = None,
    queue_manager: QueueManager = "",
    no_queue_manager: Annotated[
        bool, typer.Option("--no-queue-manager", help="Unbind the user from its queue manager.")
    ] = False,
    password: Annotated[
        bool | None,
        typer.Option(
            "--password/--no-password",
            show_default=False,
            rich_help_panel=new_password.PANEL,
            help="Ask for a new password, or remove the password.",
        ),
    ] = None,
    password_file: new_password.File = None,
    generate: new_password.Generate = False,
    **limits: Any,
) -> None:
    """Change the password, the roles or the limits of a user, or disable it.

    The roles that you give replace all roles of the user. New roles are in force at once, also on
    open connections. If you change the password or disable the user, its connections are closed. To
    log in as another user for this command, give --user and --password-file before "user".

    The word "default" resets a limit to the default of qmgrd.toml, [user_defaults]. If a limit is
    lower than the present use, nothing is closed or deleted: only further uses are refused.

    \b
    JSON: an object as in "qmctl user ls", and
      connections    number of closed connections
      password       the password, with --generate only

    Examples:
      qmctl user alter alice --password
      qmctl user alter alice --role producer --role consumer
      qmctl user alter alice --disable
      qmctl user alter alice --connections-max 10 --stored-bytes-max 1GiB
    """
    doing = f"alter user {name}"
    new_password.check(
        doing,
        password=password,
        no_password=password is False,
        password_file=password_file,
        generate=generate,
    )
    new_password.check(doing, role=role, no_role=no_role)
    new_password.check(doing, queue_manager=queue_manager, no_queue_manager=no_queue_manager)
    is_new = bool(password or password_file is not None or generate)
    changed = attribute.given(limits)
    bound = "" if no_queue_manager else queue_manager or None
    is_changed = is_new or role or no_role or changed or bound is not None
    if not is_changed and enable is None and password is None:
        raise usage(f"cannot {doing}", "no change is given")
    with call.client(doing) as client:
        found = "" if password is False else None
        if is_new:
            client.admin.user_show(name)  # An unknown user is reported before the question.
            found = new_password.find(doing, name, password_file, generate=generate)
        row: Any = client.admin.user_alter(
            name,
            password=found,
            roles=[] if no_role else role or None,
            enabled=enable,
            limits=changed,
            queue_manager=bound,
        )
    is_cut_off = found is not None or enable is False
    words = f"altered user {name}" + (f"; closed {closed(row)}" if is_cut_off else "")
    _show(call, row, words, found if generate and found else "")


def _is_open(client: "Client") -> bool:
    """Returns whether no user exists. False if the present user may not know it."""
    try:
        return client.admin.status()["open"]
    except RequestError:
        return False


def _show(call: Call, row: Any, words: str, password: str) -> None:
    """Prints the user and its generated *password*, if any."""
    if call.is_json:
        output.document({**row, "password": password} if password else row)
        return
    output.say(words)
    if password:
        output.say(f"password: {password}")
        output.note("the password is not shown again")
