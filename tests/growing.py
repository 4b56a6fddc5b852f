"""Requests of each kind that may add rows to the store, in order."""

from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Fields
from qmgr_protocol.verifier import of_nobody
from qmgrd.core.growth import GROWING

GROUP_ID = b"G" * 24
VERIFIER = str(of_nobody(b"secret", "root"))
SPARE = 40  # number of queues, links and subscriptions that may be deleted
# The daemon does not store the contents of a unit before its commit.
FILLING: frozenset[type[Any]] = GROWING | {m.Put, m.UnitCommit, m.LinkOpen}
LIMITS = frozenset(
    {
        ErrorCode.STORE_FULL,
        ErrorCode.LINKS_EXHAUSTED,
        ErrorCode.TEMPLATES_EXHAUSTED,
        ErrorCode.CURSORS_EXHAUSTED,
        ErrorCode.JOBS_EXHAUSTED,
        ErrorCode.PRODUCERS_EXHAUSTED,
        ErrorCode.QUEUES_EXHAUSTED,
        ErrorCode.SUBSCRIPTIONS_EXHAUSTED,
        ErrorCode.USERS_EXHAUSTED,
    }
)


def _where(number: int) -> str:
    return f"colour = '{number:0400}'"


# The fields of each request, after its id. The argument of each function is the number of the
# request.
REQUESTS: dict[type[Any], Callable[[int], tuple[Any, ...]]] = {
    m.ProducerOpen: lambda n: ((1 << 64 | n).to_bytes(16, "big"), False),
    m.GroupAlter: lambda n: ("GROUPED", GROUP_ID, "resume" if n % 2 else "pause"),
    m.QueueCreate: lambda n: (f"NEW.{n:040}", {}),
    m.QueueAlter: lambda n: ("EMPTY", {"depth_max": 1_000 + n}),
    m.QueueDelete: lambda n: (f"SPARE.{n % SPARE}", True),
    m.QueuePurge: lambda n: ("EMPTY", _where(n)),
    m.QueueMove: lambda n: ("EMPTY", "OTHER", _where(n), 0, 1),
    m.LinkOpen: lambda n: (b"P" * 16 + n.to_bytes(8, "big"), 1, 10, b"", 0, False, 5),
    m.LinkCreate: lambda n: (f"NEW{n}", {"addresses": [f"host{n}:1"], "stopped": True}),
    m.LinkAllow: lambda n: (f"NEW{n}",),
    m.LinkAlter: lambda n: ("LINK", {"addresses": [f"host{n}:1"]}),
    m.LinkDelete: lambda n: (f"SPARE{n % SPARE}", True),
    m.TemplateSet: lambda n: (f"NEW.{n}.*", {"depth_max": 1 + n}),
    m.Subscribe: lambda n: (f"news/{n}", f"NEW:{n}"),
    m.Unsubscribe: lambda n: (f"SPARE:{n % SPARE}",),
    m.SubscriptionHealthy: lambda n: ("SUB:kept",),
    m.TopicSet: lambda n: (f"new/{n:040}", {"redelivery_limit": n % 10}),
    m.Republish: lambda n: (False, b"", _where(n)),
    m.CursorCommit: lambda n: (f"NEW{n}", 0),
    m.UserCreate: lambda n: (f"NEW{n}", {"roles": ["administrator"], "verifier": VERIFIER}),
    m.UserAlter: lambda n: ("root", {"roles": ["administrator", "monitor"][: 1 + n % 2]}),
    m.RoleCreate: lambda n: (f"NEW{n}",),
    m.GrantCreate: lambda n: ("root", "", ["put"], "queue", f"NEW.{n:040}"),
    m.GrantDelete: lambda n: ("root", "", ["get"], "queue", f"SPARE.{n % SPARE}"),
}


def prepare(ask: Callable[..., Any]) -> None:
    """Creates the objects that the requests need."""
    for name in ("Q", "GROUPED", "EMPTY", "OTHER", *(f"SPARE.{n}" for n in range(SPARE))):
        ask(m.QueueCreate, name)
    for name in ("LINK", *(f"SPARE{n}" for n in range(SPARE))):
        ask(m.LinkCreate, name, {"addresses": [f"{name}:1"], "stopped": True})
    for name in ("SUB:kept", *(f"SPARE:{n}" for n in range(SPARE))):
        ask(m.Subscribe, "kept/topic", name)
    ask(m.UserCreate, "root", {"roles": ["administrator"], "verifier": VERIFIER})
    for number in range(SPARE):
        ask(m.GrantCreate, "root", "", ["get"], "queue", f"SPARE.{number}")


def grouped(number: int) -> bytes:
    """Returns member *number* of a group."""
    return records.encode(Fields(b"", group=(GROUP_ID, number, False)))


def heavy(number: int, size: int) -> bytes:
    """Returns a record with the largest possible number of index rows."""
    return records.encode(
        Fields(bytes(size), correlation_id=(number * 7919).to_bytes(40, "little"), expiry_ms=10**9)
    )
