"""The command ``qmctl``: puts and gets messages, and manages a queue manager."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import typer

from qmgr_tools.access import show as access_show
from qmgr_tools.access import verdict as access_verdict
from qmgr_tools.auth import explain as auth_explain
from qmgr_tools.cli import completion, exit_code, help_text, standard_streams, stderr
from qmgr_tools.cli.command import Command, group, shared_options
from qmgr_tools.context import context, login
from qmgr_tools.dlq import dlq
from qmgr_tools.dlq import export as dlq_export
from qmgr_tools.grant import grant
from qmgr_tools.group import alter as group_alter
from qmgr_tools.group import group as groups
from qmgr_tools.job import job
from qmgr_tools.link import allow as link_allow
from qmgr_tools.link import link
from qmgr_tools.link import show as link_show
from qmgr_tools.link.doctor import doctor as link_doctor
from qmgr_tools.manager import apply, aside, audit, connection, events, explain, status, switch_over
from qmgr_tools.message import browse, message
from qmgr_tools.queue import alter as queue_alter
from qmgr_tools.queue import move, queue, template
from qmgr_tools.republish import republish
from qmgr_tools.republish import send as republish_send
from qmgr_tools.role import role
from qmgr_tools.store import (
    export,
    history,
    journal,
    report,
    snapshot,
    snapshot_list,
    snapshot_prune,
    store,
)
from qmgr_tools.subscription import alter as subscription_alter
from qmgr_tools.subscription import consume as subscription_consume
from qmgr_tools.subscription import subscription
from qmgr_tools.tls import init as tls_init
from qmgr_tools.tls import show as tls_show
from qmgr_tools.top import top
from qmgr_tools.topic import publish, topic
from qmgr_tools.topic import unconsumed as topic_unconsumed
from qmgr_tools.user import alter as user_alter
from qmgr_tools.user import user


def extra_commands() -> dict[str, Command | typer.Typer]:
    """Returns the commands of the benchmark and the proxy if they are installed."""
    found: dict[str, Command | typer.Typer] = {}
    if find_spec("qmgr_bench"):
        from qmgr_bench import commands as bench
        from qmgr_bench import transfer

        found["bench"] = group(
            "Benchmarks of a queue manager",
            put=bench.put,
            get=bench.get,
            putget=bench.putget,
            transfer=transfer.transfer,
        )
    if find_spec("qmgr_proxy"):
        from qmgr_proxy import command as proxy

        found["proxy"] = proxy.proxy
    return found


# The commands by section of the help.
TREE: dict[str, dict[str, Command | typer.Typer]] = {
    "Messages": {
        "put": message.put,
        "get": message.get,
        "browse": browse.browse,
        "move": move.move,
        "copy": move.copy,
        "dlq": group(
            "Dead letters: messages that could not be consumed",
            aliases={"drop": "delete"},
            ls=dlq.ls,
            show=dlq.show,
            retry=dlq.retry,
            delete=dlq.delete,
            export=dlq_export.export,
        ),
    },
    "Topics": {
        "pub": publish.pub,
        "sub": group(
            "Subscriptions",
            aliases={"rm": "delete"},
            create=subscription_alter.create,
            alter=subscription_alter.alter,
            ls=subscription.ls,
            show=subscription.show,
            lag=subscription.lag,
            consume=subscription_consume.consume,
            healthy=subscription_alter.healthy,
            delete=subscription_alter.delete,
        ),
        "topic": group(
            "Topics",
            "",
            aliases={"rm": "delete"},
            ls=topic.ls,
            show=topic.show,
            set=topic.set_,
            delete=topic.delete,
            **{"who-lacks": topic_unconsumed.who_lacks, "what-lacks": topic_unconsumed.what_lacks},
        ),
        "republish": group(
            "Parked publications: subscribers failed on them too often",
            aliases={"drop": "delete"},
            ls=republish.ls,
            show=republish.show,
            send=republish_send.send,
            delete=republish_send.delete,
        ),
    },
    "Queues and links": {
        "queue": group(
            "Queues",
            create=queue.create,
            alter=queue_alter.alter,
            ls=queue.ls,
            show=queue.show,
            purge=queue.purge,
            delete=queue.delete,
        ),
        "group": group(
            "Message groups",
            ls=groups.ls,
            show=groups.show,
            pause=group_alter.pause,
            resume=group_alter.resume,
            skip=group_alter.skip,
            reassign=group_alter.reassign,
            close=group_alter.close,
        ),
        "template": group(
            "Templates: attributes for all queues whose names match a pattern",
            ls=template.ls,
            show=template.show,
            set=template.set_,
            delete=template.delete,
        ),
        "link": group(
            "Links to other queue managers",
            create=link.create,
            alter=link.alter,
            ls=link_show.ls,
            show=link_show.show,
            doctor=link_doctor.doctor,
            explain=link_doctor.explain,
            start=link.start,
            stop=link.stop,
            delete=link.delete,
            allow=link_allow.allow,
            disallow=link_allow.disallow,
        ),
        "connection": group(
            "Connections of clients and links", ls=connection.ls, close=connection.close
        ),
        "apply": apply.apply,
        "dump": apply.dump,
    },
    "Users and rights": {
        "user": group(
            "Users",
            create=user_alter.create,
            alter=user_alter.alter,
            ls=user.ls,
            show=user.show,
            delete=user.delete,
        ),
        "role": group(
            "Roles: named sets of grants",
            create=role.create,
            ls=role.ls,
            show=role.show,
            delete=role.delete,
        ),
        "grant": group(
            "Grants: rights of users and roles",
            create=grant.create,
            ls=grant.ls,
            delete=grant.delete,
        ),
        "access": group("Rules for logins", show=access_show.show, test=access_verdict.verdict),
        "auth": group("Authorization of requests", explain=auth_explain.explain),
        "tls": group("Certificates for TLS", init=tls_init.init, show=tls_show.show),
    },
    "The queue manager": {
        "status": status.status,
        "switch-over": switch_over.switch_over,
        "top": top.top,
        "events": events.events,
        "audit": audit.audit,
        "history": group(
            "The history of messages, and its export cursors",
            aliases={"forget": "delete"},
            ls=history.ls,
            show=history.show,
            delete=history.delete,
        ),
        "job": group(
            "Jobs: long tasks of the queue manager", ls=job.ls, show=job.show, cancel=job.cancel
        ),
        "aside": group(
            "Items set aside: failed work and damaged rows",
            aliases={"drop": "delete"},
            ls=aside.ls,
            retry=aside.retry,
            delete=aside.delete,
        ),
        "snapshot": group(
            "Snapshots of a store",
            create=snapshot.create,
            ls=snapshot_list.ls,
            verify=snapshot_list.verify,
            prune=snapshot_prune.prune,
        ),
        "export": export.export,
        "report": report.report,
        "store": group("Stopped stores, and snapshots", verify=store.verify, stat=store.stat),
        "journal": group("Journals of stopped queue managers", move=journal.move),
    },
    "This program": {
        "context": group(
            "Contexts: named addresses of queue managers",
            context.MORE_HELP,
            create=context.create,
            ls=context.ls,
            use=context.use,
            show=context.show,
            delete=context.delete,
        ),
        "login": login.login,
        **extra_commands(),
        "explain": explain.explain,
    },
}


class Root(help_text.HelpGroup):
    """The group of all commands."""

    def list_commands(self, ctx: object) -> list[str]:
        """Returns the names of the commands in the order of TREE: Typer would list groups last."""
        return [name for commands in TREE.values() for name in commands]


app = typer.Typer(
    cls=Root,
    help=help_text.ROOT,
    epilog=help_text.ROOT_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    callback=shared_options,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
for section, commands in TREE.items():
    for name, found in commands.items():
        if isinstance(found, Command):
            found.add_to(app, name, section)
        else:
            app.add_typer(found, name=name, rich_help_panel=section)


def main() -> None:
    """Runs the command, and exits with its exit code."""
    standard_streams.complete()
    completion.install()
    if completion.is_wanted():
        sys.exit(completion.answer(lambda: run([])))
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs the command that *arguments* name, and returns the exit code."""
    with stderr.in_json(wanted=stderr.asks_for_json(arguments)):
        return exit_code.code_of(
            lambda: _command()(list(arguments), prog_name="qmctl", standalone_mode=False)
        )


@cache
def _command() -> Callable[..., Any]:
    """Returns the function that runs commands. The cache avoids 100 ms per call."""
    return typer.main.get_command(app)
