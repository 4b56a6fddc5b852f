"""The commands that solve an error. The daemon states the problem, and qmctl adds commands.

The text of an error is "what happened" or "what happened; what to do". For each error code, the
table has patterns of such texts, each with a command. The named groups of a pattern are the names
that the command needs. ``tests/qmgr_tools/cli/test_remedy.py`` checks each entry against the
daemon's error.
"""

import re
from shlex import quote
from typing import NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError

SENTENCE_END = re.compile(r"\. (?=[A-Z])")  # A remedy may list characters, as in: 0-9 . _
SIMILAR = re.compile(r"did you mean (\S+)\?")


class RemedyEntry(NamedTuple):
    """The remedy of errors whose text matches *pattern*. {name} is a group of the pattern."""

    pattern: re.Pattern[str]
    remedy: str


def _entry(pattern: str, remedy: str) -> RemedyEntry:
    return RemedyEntry(re.compile(pattern), remedy)


def _raise_limit(option: str) -> tuple[RemedyEntry, ...]:
    """Returns the remedy of an error for a user that has reached a limit."""
    return (
        _entry(
            r"(.*: )?user (?P<user>\S+) has \d+ ",
            f"an administrator can raise the limit with: qmctl user alter {{user}} {option}",
        ),
    )


TABLE: dict[ErrorCode, tuple[RemedyEntry, ...]] = {
    ErrorCode.CONNECTION_UNKNOWN: (_entry(r"connection", "see: qmctl connection ls"),),
    ErrorCode.CURSOR_UNKNOWN: (_entry(r"export cursor", "see: qmctl history show"),),
    ErrorCode.ASIDE_UNKNOWN: (_entry(r"item", "see: qmctl aside ls"),),
    ErrorCode.JOB_UNKNOWN: (_entry(r"job", "see: qmctl job ls"),),
    ErrorCode.JOBS_EXHAUSTED: (
        _entry(r".* jobs run", "wait for one to end, or cancel one: qmctl job cancel"),
    ),
    ErrorCode.LOGIN_REQUIRED: (
        _entry(
            r"(.*: )?(log in|users exist now)",
            "give --user NAME and --password-file FILE, or store them in a context: qmctl context "
            "create NAME ADDRESS, then qmctl login --context NAME",
        ),
    ),
    ErrorCode.LOGIN_FAILED: (
        _entry(
            r"(.*: )?the user (?P<user>\S+) does not exist, is disabled",
            "check the user and the password; an administrator can set a new one with: "
            "qmctl user alter {user} --password",
        ),
    ),
    ErrorCode.NOT_AUTHORIZED: (
        _entry(
            r"user (?P<user>\S+) may not do this: the right to (?P<right>\S+) on the queue manager "
            r"itself is",
            "an administrator can grant it with: qmctl grant create --user {user} {right} manager",
        ),
        _entry(
            r"user \S+ may not do this: the right to \S+ on (every )?(user|role)\b",
            "ask an administrator: only the role administrator has this right",
        ),
        _entry(
            r"user (?P<user>\S+) may not do this: the right to (?P<right>\S+) on every "
            r"(?P<kind>\S+) is",
            "an administrator can grant it with: qmctl grant create --user {user} {right} {kind} "
            "'*'",
        ),
        _entry(
            r"user (?P<user>\S+) may not do this: the right to (?P<right>\S+) on (?P<kind>\S+) "
            r"(?P<name>\S+) is",
            "an administrator can grant it with: qmctl grant create --user {user} {right} {kind} "
            "{name}",
        ),
    ),
    ErrorCode.USER_UNKNOWN: (_entry(r"user", "see: qmctl user ls"),),
    ErrorCode.USER_EXISTS: (
        _entry(r"user (?P<user>\S+) already exists", "alter it with: qmctl user alter {user}"),
    ),
    ErrorCode.USERS_EXHAUSTED: (
        _entry(r".* grants of", "grant rights to a role: qmctl role create ROLE"),
    ),
    ErrorCode.USER_CONNECTIONS_EXHAUSTED: _raise_limit("--connections-max N"),
    ErrorCode.USER_STREAMS_EXHAUSTED: _raise_limit("--streams-max N"),
    ErrorCode.USER_PRODUCERS_EXHAUSTED: _raise_limit("--producers-max N"),
    ErrorCode.USER_CONSUMERS_EXHAUSTED: _raise_limit("--consumers-max N"),
    ErrorCode.USER_QUEUES_EXHAUSTED: _raise_limit("--queues-max N"),
    ErrorCode.USER_SUBSCRIPTIONS_EXHAUSTED: _raise_limit("--subscriptions-max N"),
    ErrorCode.USER_BYTES_EXHAUSTED: _raise_limit("--stored-bytes-max SIZE"),
    ErrorCode.ROLE_UNKNOWN: (
        _entry(
            r"role (?P<role>\S+) does not exist",
            "see: qmctl role ls; or create it with: qmctl role create {role}",
        ),
    ),
    ErrorCode.ROLE_EXISTS: (
        _entry(r"role \S+ is built in", "create another role with: qmctl role create ROLE"),
        _entry(r"role (?P<role>\S+) already exists", "see: qmctl role show {role}"),
    ),
    ErrorCode.ROLE_IN_USE: (
        _entry(r"role (?P<role>\S+) is given to", "see: qmctl user ls --where 'roles=*{role}*'"),
    ),
    ErrorCode.GRANT_UNKNOWN: (_entry(r"(user|role)", "see: qmctl grant ls"),),
    ErrorCode.ADMINISTRATOR_REQUIRED: (
        _entry(
            r"(?P<user>\S+) would be the first user",
            "add --role administrator: qmctl user create {user} --role administrator",
        ),
        _entry(
            r"\S+ is the only user",
            "make another user an administrator first: qmctl user alter USER --role administrator",
        ),
    ),
    ErrorCode.QUEUE_UNKNOWN: (
        _entry(
            r"(?P<alias>\S+) is an alias of queue (?P<queue>\S+), which does not exist",
            "create it with: qmctl queue create {queue}; or name another target with: qmctl queue "
            "alter {alias} --alias-of QUEUE",
        ),
        _entry(
            r"queue @(?P<link>\S+) does not exist",
            "create it with: qmctl link create {link} HOST:PORT",
        ),
        _entry(
            r"queue (?P<queue>\S+) does not exist", "create it with: qmctl queue create {queue}"
        ),
    ),
    ErrorCode.QUEUE_IS_SUBSCRIPTION: (
        _entry(r"(?P<sub>\S+) is a subscription(?:;|$)", "delete it with: qmctl sub delete {sub}"),
    ),
    ErrorCode.QUEUE_IS_TRANSMISSION: (
        _entry(
            r"@(?P<link>\S+) is the transmission queue of a link(?:;|$)",
            "delete the link with: qmctl link delete {link}",
        ),
        _entry(
            r"@(?P<link>\S+) is created with the link",
            "create the link with: qmctl link create {link} HOST:PORT",
        ),
    ),
    ErrorCode.QUEUE_IS_SYSTEM: (
        _entry(
            r"(?P<queue>\S+) cannot be deleted .*; purge",
            "empty it with: qmctl queue purge {queue}",
        ),
    ),
    ErrorCode.QUEUE_IS_REMOTE: (
        _entry(
            r".* not forwarded over link (?P<link>\S+)(?:;|$)",
            "to forward them: qmctl link alter {link} --transit",
        ),
    ),
    ErrorCode.PUT_INHIBITED: (
        _entry(
            r"puts are inhibited on queue (?P<queue>\S+)(?:;|$)",
            "allow them with: qmctl queue alter {queue} --no-put-inhibit",
        ),
        _entry(
            r"puts are inhibited on topic (?P<topic>.+) or a topic above it(?:;|$)",
            "see: qmctl topic show {topic}",
        ),
    ),
    ErrorCode.GET_INHIBITED: (
        _entry(
            r"gets are inhibited on queue (?P<queue>\S+)(?:;|$)",
            "allow them with: qmctl queue alter {queue} --no-get-inhibit",
        ),
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        _entry(
            r".* on queue (?P<queue>\S+)(?:;|$)",
            "split it, or raise the limit with: qmctl queue alter {queue} --message-max SIZE",
        ),
    ),
    ErrorCode.TRANSFER_REFUSED: (
        _entry(
            r"queue (?P<queue>\S+) accepts no messages from links(?:;|$)",
            "to accept them: qmctl queue alter {queue} --transfer-in",
        ),
    ),
    ErrorCode.GROUP_UNKNOWN: (
        _entry(r"queue (?P<queue>\S+) has no group", "see: qmctl group ls {queue}"),
    ),
    ErrorCode.GROUP_NUMBER_TAKEN: (
        _entry(
            r"number \d+ of group (?P<group>.+?) on queue (?P<queue>\S+)",
            "check whether it was put before: qmctl group show {queue} {group}",
        ),
    ),
    ErrorCode.GROUP_ENDED: (
        _entry(
            r"group (?P<group>.+?) on queue (?P<queue>\S+)",
            "begin another group; see: qmctl group show {queue} {group}",
        ),
    ),
    ErrorCode.GROUP_IN_USE: (
        _entry(
            r"number \d+ of group (?P<group>.+?) on queue (?P<queue>\S+) is leased",
            "skip it after the lease ends: pause the group until then (qmctl group pause {queue} "
            "{group}), or close the connection of a client that hangs (qmctl connection ls)",
        ),
    ),
    ErrorCode.GROUP_NO_READER: (
        _entry(r".* groups of ", "start a consumer of groups; see: qmctl connection ls"),
    ),
    ErrorCode.SUBSCRIPTION_UNKNOWN: (_entry(r"subscription", "see: qmctl sub ls"),),
    ErrorCode.TOPIC_UNKNOWN: (_entry(r"topic", "see: qmctl topic ls"),),
    ErrorCode.TEMPLATE_UNKNOWN: (_entry(r"template", "see: qmctl template ls"),),
    ErrorCode.LINK_UNKNOWN: (
        _entry(
            r"no link to (?P<link>\S+) exists here, but \S+ may open links",
            "to end these links: qmctl link disallow {link}",
        ),
        _entry(
            r"link (?P<link>\S+) does not exist(?:;|$)",
            "create it with: qmctl link create {link} HOST:PORT",
        ),
        _entry(r"\S+ is not allowed to open links", "see: qmctl link ls"),
    ),
    ErrorCode.VALUE_INVALID: (
        _entry(
            r"link (?P<link>\S+) was refused with PEER_WRONG",
            "correct the address with: qmctl link alter {link} HOST:PORT",
        ),
        _entry(
            r"link (?P<link>\S+) was refused with",
            "see: qmctl link show {link}; fix that, then start it: qmctl link start {link}",
        ),
        _entry(
            r"item (?P<item>\d+): .* cannot be retried",
            "delete the item: qmctl aside delete {item}",
        ),
        _entry(
            r"item (?P<item>\d+) cannot be restored",
            "delete what exists, or the item: qmctl aside delete {item}",
        ),
        _entry(
            r"item (?P<item>\d+), .* to delete",
            "leave it set aside, or retry it: qmctl aside retry {item}",
        ),
        _entry(r"only job \d+ .* can remove", "retry its item; see: qmctl aside ls"),
    ),
    ErrorCode.LINK_EXISTS: (
        _entry(
            r"link (?P<link>\S+) already exists, with addresses [^;]+, not "
            r"(?P<address>[^;\s]+)(?:;|$)",
            "alter it with: qmctl link alter {link} {address}",
        ),
        _entry(r"link (?P<link>\S+) already exists", "alter it with: qmctl link alter {link}"),
    ),
    ErrorCode.LINKS_EXHAUSTED: (
        _entry(r".*link\.peers_max", "disallow some with: qmctl link disallow MANAGER"),
    ),
    ErrorCode.PEER_WRONG: (
        _entry(
            r".* is \S+, not (?P<link>\S+)(?:;|$)",
            "correct the address with: qmctl link alter {link} HOST:PORT",
        ),
    ),
    ErrorCode.PEER_NOT_ALLOWED: (
        _entry(r"\S+ accepts no links from (?P<peer>\S+)(?:;|$)", "qmctl link allow {peer}"),
    ),
    ErrorCode.PEER_USER_WRONG: (
        _entry(
            r"user (?P<user>\S+) may not act as queue manager (?P<manager>\S+), .*; bind user",
            "if it was renamed: qmctl user alter {user} --queue-manager {manager}",
        ),
    ),
    ErrorCode.PEER_STORE_CHANGED: (
        _entry(
            r"queue manager (?P<peer>\S+) has a different store .* start link",
            "qmctl link start {peer} --accept",
        ),
        _entry(
            r"queue manager (?P<peer>\S+) has a different store than before, now (?P<store_id>\w+)",
            "qmctl link allow {peer} --store-id {store_id}",
        ),
    ),
}


def of(error: RequestError) -> str:
    """Returns the remedy of a daemon's *error*, or "" if no remedy is known."""
    if error.code == ErrorCode.NAME_INVALID:  # The error's text describes valid names.
        return error.text.partition("; ")[2]
    known = command(error.code, error.text)
    if not known:
        return error.text.partition("; ")[2] or general(error.code)
    similar = SIMILAR.search(error.text)
    if similar is None:
        return known
    return f"did you mean {similar[1]}? {'' if known.startswith('see') else 'if not, '}{known}"


def command(code: int, text: str) -> str:
    """Returns the command for an error with this *text*, or "" if the table has no entry."""
    for entry in TABLE.get(ErrorCode(code), ()):
        if found := entry.pattern.match(text):
            return entry.remedy.format_map({k: quote(v) for k, v in found.groupdict().items()})
    return ""


def general(code: int) -> str:
    """Returns the first sentence of the catalogue's remedy for an error code, or ""."""
    first = SENTENCE_END.split(ErrorCode(code).remedy, maxsplit=1)[0].removesuffix(".")
    return first[:1].lower() + first[1:]
