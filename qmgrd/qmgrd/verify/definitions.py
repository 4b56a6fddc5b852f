"""The small rows of a store. Each has a valid seal, is readable, and agrees with the other rows."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import name as names
from qmgr_protocol import topic as topics
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import FrameMalformed, RequestError
from qmgr_protocol.limits import ANY_ROUTE
from qmgrd.core.access import user as users
from qmgrd.core.catalogue import named
from qmgrd.core.catalogue.boot import SECRET_BYTES
from qmgrd.core.catalogue.system import PUBLICATIONS
from qmgrd.core.catalogue.templates import check_pattern
from qmgrd.core.context import peers as link_peers
from qmgrd.core.context import producer
from qmgrd.core.context.aside import item_of
from qmgrd.core.jobs import job
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.link import inbox as link_inbox
from qmgrd.verify.finding import Findings

SINGLE = {
    keys.STORE: "the store row",
    keys.CLOCK: "the clock row",
    keys.CLEAN: "the clean-stop marker",
    keys.NEXT_QUEUE: "the id of the next queue",
}
_SOMETIMES = (keys.FAN_OUT, keys.HISTORY, keys.SECRET, keys.LISTED, keys.GUARDED, keys.CHECKPOINT)
KEY_BYTES = {
    keys.SPACE_COUNTERS: 5,
    keys.SPACE_LINK_OUTBOX: 5,
    keys.SPACE_PRODUCER: 17,
    keys.SPACE_LINK_INBOX: 25,
    keys.SPACE_JOB: 9,
    keys.SPACE_ASIDE: 9,
}
SPACES = {  # the contents of the rows in each space
    b"\x00": "of the store itself",
    keys.SPACE_QUEUE: "definitions of queues",
    keys.SPACE_LINK: "definitions of links",
    keys.SPACE_PEER: "linked queue managers",
    keys.SPACE_COUNTERS: "counters",
    keys.SPACE_TEMPLATE: "definitions of templates",
    keys.SPACE_TOPIC: "definitions of topics",
    keys.SPACE_USER: "users",
    keys.SPACE_ROLE: "roles",
    keys.SPACE_MESSAGE: "messages",
    keys.SPACE_UID: "UID index",
    keys.SPACE_ORIGIN: "highest timestamps",
    keys.SPACE_DUE: "schedule",
    keys.SPACE_CORRELATION: "correlation ids",
    keys.SPACE_GROUP: "messages of groups",
    keys.SPACE_NOTE: "failure notes",
    keys.SPACE_GROUP_ROW: "groups",
    keys.SPACE_CHAIN: "groups that are next",
    keys.SPACE_COMPLETE: "complete groups",
    keys.SPACE_HOLDERS: "holders of publications",
    keys.SPACE_PARKED: "parked publications",
    keys.SPACE_RETAINED: "retained publications",
    keys.SPACE_PRODUCER: "windows of producers",
    keys.SPACE_LINK_INBOX: "receiving windows",
    keys.SPACE_LINK_OUTBOX: "sending windows",
    keys.SPACE_BODY: "pieces of long messages",
    keys.SPACE_UNOWNED: "marks of incomplete long messages",
    keys.SPACE_JOB: "jobs",
    keys.SPACE_HISTORY: "history",
    keys.SPACE_CURSOR: "export cursors",
    keys.SPACE_ASIDE: "items set aside",
}
# The tables, in the order in which the forms of their names are numbered.
KINDS = ("local", "remote", "transmission")
STREAMS = (keys.SPACE_PEER, keys.SPACE_PRODUCER, keys.SPACE_LINK_INBOX)
SEALS = {
    keys.SPACE_ORIGIN: "seal-origin",
    keys.SPACE_NOTE: "seal-note",
    keys.SPACE_GROUP_ROW: "seal-group",
}
END = b"\xff" * 64  # a key after all keys of a store
NONSENSE = (FrameMalformed, RequestError, ValueError, TypeError, KeyError, IndexError, struct.error)


@dataclass
class Defined:
    """The readable definitions in a store."""

    queues: dict[int, str] = field(default_factory=dict)  # queue names by id, without remote queues
    # The queue managers that are reached through links.
    routes: set[str] = field(default_factory=set)
    # The remote queues and aliases, which have no id.
    remote: list[str] = field(default_factory=list)
    # Ids of the transmission queues by link name.
    links: dict[str, int] = field(default_factory=dict)
    # The ids of deleted queues that are being removed.
    dropped: set[int] = field(default_factory=set)
    # Ranges of arrivals, by queue id, whose non-persistent messages are lost and being removed.
    lost: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    is_whole: bool = True  # whether no definition row is damaged


def check_definitions(found: Findings, tx: Transaction) -> Defined:
    """Checks every sealed row except origins and notes. Returns the definitions."""
    _check_spaces(found, tx)
    defined = Defined()
    single = dict(unsealed(found, tx, b"\x00"))
    secret = single.get(keys.SECRET)  # A store that an older version wrote has no secret.
    if secret is not None and len(secret) != SECRET_BYTES:
        why = f"the secret has {len(secret)} bytes, not {SECRET_BYTES}; the next start creates one"
        found.add("content", keys.SECRET, why)
    for key, what in SINGLE.items():
        if tx.get(key) is None:
            found.add("missing", key, f"{what} is missing")
    _read_queues(found, tx, defined)
    _read_links(found, tx, defined)
    _read_jobs(found, tx, defined)
    defined.is_whole = not found.counts["seal"] and not found.counts["content"]
    next_id = int.from_bytes(single.get(keys.NEXT_QUEUE, b""), "big")
    for queue_id, name in defined.queues.items():
        is_given = queue_id != keys.PUBLICATIONS_ID
        if keys.NEXT_QUEUE in single and queue_id >= next_id and is_given:
            found.add(
                "content",
                keys.NEXT_QUEUE,
                f"queue {name} has id {queue_id}, but the next is {next_id}",
            )
    _check_pairs(found, defined)
    for space in (
        keys.SPACE_COUNTERS,
        keys.SPACE_LINK_OUTBOX,
        keys.SPACE_TEMPLATE,
        keys.SPACE_TOPIC,
        keys.SPACE_USER,
        keys.SPACE_ROLE,
        keys.SPACE_ASIDE,
        *STREAMS,
    ):
        _check_rows(found, tx, space)
    return defined


def unsealed(found: Findings, tx: Transaction, space: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and rows of *space* that have a valid seal."""
    fault = "seal-stream" if space in STREAMS else "seal"
    fault = SEALS.get(space[:1], fault)
    for key, value in tx.scan(space, keys.after(space)):
        found.looked_at(1)
        try:
            yield key, rows.unseal(key, value)
        except rows.RowDamaged as error:
            found.add(fault, key, error.text.partition(";")[0])


def _check_spaces(found: Findings, tx: Transaction) -> None:
    """Finds rows of unknown spaces, with one seek per space plus one."""
    start = b"\0"
    while (row := next(tx.scan(start, END), None)) is not None:
        key = row[0]
        if key[keys.SPACE] in SPACES:
            start = keys.after(key[keys.SPACE])
        else:
            found.looked_at(1)
            found.add("key", key, f"unknown space {key[keys.SPACE].hex()}")
            start = key + b"\0"
    for key, _ in tx.scan(b"\x00", b"\x01"):
        if key not in SINGLE and key not in _SOMETIMES:
            found.add("key", key, "unknown row")


def _decoded(
    found: Findings, key: bytes, row: bytes, what: str, decode: Callable[[bytes, bytes], Any]
) -> Any:
    """Returns *row* decoded by *decode*, or None if decoding fails."""
    try:
        return decode(key, row)
    except NONSENSE as error:
        found.add("content", key, f"{what}: {type(error).__name__}: {error}")
        return None


def _read_queues(found: Findings, tx: Transaction, defined: Defined) -> None:
    for key, row in unsealed(found, tx, keys.SPACE_QUEUE):
        read = _decoded(found, key, row, "the definition of a queue", _queue)
        if read is None:
            continue
        name, kind, queue_id = read
        if kind in named.KINDS:
            defined.remote.append(name)
            continue
        if queue_id in defined.queues:
            other = defined.queues[queue_id]
            found.add("content", key, f"queues {other} and {name} have the same id, {queue_id}")
        defined.queues[queue_id] = name
        if tx.get(keys.of_queue(keys.SPACE_COUNTERS, queue_id)) is None:
            counters = keys.of_queue(keys.SPACE_COUNTERS, queue_id)
            found.add("missing", counters, f"the counters of queue {name} are missing")


def _queue(key: bytes, row: bytes) -> tuple[str, str, int]:
    name, facts = key[keys.REST].decode(), unpack(row)
    kind = facts["kind"]
    if topics.is_subscription(name):
        return name, kind, _subscription(name, facts)
    target, manager = names.split(name)
    if name == PUBLICATIONS and kind == "publications":
        return name, kind, int(facts["queue_id"])
    is_alias = kind == "alias" and target and not manager and names.split(facts["alias_of"])[0]
    if not is_alias and kind != KINDS[(not target) + bool(manager)]:
        raise ValueError(f"{name} is not a {kind} queue")
    return name, kind, int(facts["queue_id"])


def _subscription(name: str, facts: dict[str, Any]) -> int:
    """Returns the queue id of a subscription, or 0 for a proxy."""
    is_proxy = "@" in name
    if facts["kind"] != ("proxy" if is_proxy else "subscription"):
        raise ValueError(f"{name} is not a {facts['kind']}")
    topics.filter_of(facts["topic"])
    if not name.startswith(topics.DYNAMIC):
        topics.check_subscription(name)
    int(facts["first"])
    return int(facts["queue_id"])


def _read_links(found: Findings, tx: Transaction, defined: Defined) -> None:
    for key, row in unsealed(found, tx, keys.SPACE_LINK):
        read = _decoded(found, key, row, "the definition of a link", _link)
        if read is not None:
            name, queue_id, routes = read
            defined.links[name] = queue_id
            defined.routes.update(routes)


def _link(key: bytes, row: bytes) -> tuple[str, int, list[str]]:
    facts = unpack(row)
    if type(facts["addresses"]) is not list or type(facts["stopped"]) is not bool:
        raise ValueError("addresses or the stopped flag are missing")
    return (
        names.check(key[keys.REST].decode()),
        int(facts["queue_id"]),
        list(facts.get("routes", [])),
    )


def _read_jobs(found: Findings, tx: Transaction, defined: Defined) -> None:
    for key, row in unsealed(found, tx, keys.SPACE_JOB):
        facts = _decoded(found, key, row, "a job", _job)
        if facts is None or facts.get("ended_us"):
            continue
        if facts["kind"] == "drop":
            defined.dropped.add(facts["queue_id"])
        elif facts["kind"] == "sweep":
            lost = defined.lost.setdefault(facts["queue_id"], [])
            lost.append((facts["first"], facts["before"]))


def _job(key: bytes, row: bytes) -> dict[str, Any]:
    del key
    facts: dict[str, Any] = unpack(row)
    if facts["kind"] not in job.KINDS or type(facts["cursor"]) is not bytes:
        raise ValueError(f"unknown kind of job: {facts['kind']}")
    if facts["kind"] != "retention":
        int(facts["queue_id"])
    if facts["kind"] == "sweep":
        facts |= {"first": int(facts["first"]), "before": int(facts["before"])}
    return facts


def _check_pairs(found: Findings, defined: Defined) -> None:
    """Checks queues, links and remote queues against each other if all rows are readable."""
    if not defined.is_whole:
        return
    by_name = {name: queue_id for queue_id, name in defined.queues.items()}
    for link, queue_id in defined.links.items():
        if by_name.get(f"@{link}") != queue_id:
            key = keys.SPACE_LINK + link.encode()
            found.add("missing", key, f"the transmission queue of link {link} is missing")
    for name in (*defined.queues.values(), *defined.remote):
        manager = name.partition("@")[2]
        if manager and not ({manager, ANY_ROUTE} & defined.routes or manager in defined.links):
            key = keys.SPACE_QUEUE + name.encode()
            found.add("missing", key, f"queue {name}: link {manager} is missing")


def _check_rows(found: Findings, tx: Transaction, space: bytes) -> None:
    """Checks those rows of *space* that do not depend on other rows."""
    decode: Callable[[bytes, bytes], object] = {
        keys.SPACE_LINK_OUTBOX: lambda key, row: [*map(int, unpack(row)[:1])],
        keys.SPACE_TEMPLATE: lambda key, row: _template(key[keys.REST].decode(), unpack(row)),
        keys.SPACE_ASIDE: lambda key, row: item_of(1, unpack(row)),
        keys.SPACE_TOPIC: lambda key, row: _topic(key[keys.REST].decode(), unpack(row)),
        keys.SPACE_USER: lambda key, row: users.decode(key[keys.REST].decode(), row),
        keys.SPACE_ROLE: lambda key, row: users.decode(key[keys.REST].decode(), row),
        keys.SPACE_PRODUCER: lambda key, row: producer.load(tx, key[keys.REST], 1),
        keys.SPACE_LINK_INBOX: lambda key, row: link_inbox.load(tx, key[keys.REST], 1),
        keys.SPACE_PEER: lambda key, row: link_peers.decode(row),
    }.get(space, lambda key, row: None)
    for key, row in unsealed(found, tx, space):
        if len(key) != KEY_BYTES.get(space, len(key)):
            found.add("key", key, f"the key has {len(key)} bytes, not {KEY_BYTES[space]}")
        else:
            what = _WHAT.get(space, "a window")
            _decoded(found, key, row, what, decode)


_WHAT = {
    keys.SPACE_ASIDE: "an item",
    keys.SPACE_PEER: "a linked queue manager",
    keys.SPACE_TEMPLATE: "a template",
    keys.SPACE_TOPIC: "a topic",
    keys.SPACE_USER: "a user",
    keys.SPACE_ROLE: "a role",
}


def _topic(topic: str, facts: dict[str, Any]) -> None:
    topics.levels_of(topic)
    if type(facts) is not dict:
        raise ValueError("not a map")


def _template(pattern: str, facts: dict[str, Any]) -> None:
    check_pattern(pattern)
    if type(facts) is not dict:
        raise ValueError("not a map")
