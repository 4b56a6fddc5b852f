"""The remedies that qmctl adds to the daemon's errors."""

import pytest

from qmgr_config.model import Config
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind, Right
from qmgr_tools.cli import remedy
from qmgrd.core.access.access import Access
from qmgrd.core.catalogue import attributes, missing, system
from qmgrd.core.context.context import Context
from qmgrd.core.layout.kv import Now
from qmgrd.core.queue.group import intervention_errors
from qmgrd.core.queue.group.admission import taken
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.requests.rights import Needed, refusal
from tests.memory_store import MemoryStore


def from_peers(name: str, *, is_known: bool, has_link: bool = False) -> RequestError:
    """Returns the error for a queue manager that is not allowed or has another store."""
    context = Context(Config(), "HUB", b"S" * 16, 1)
    context.tx, context.now = MemoryStore(), Now(0, 0)
    if is_known:
        context.peers.allow(name, b"\x0a" * 16)
    with pytest.raises(RequestError) as caught:
        context.peers.admit(name, b"\x0b" * 16, has_link=has_link)
    return caught.value


def undeletable(name: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        system.check_deletable(name)
    return caught.value


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (missing.no_queue("FIGS", ["ORDERS"]), "create it with: qmctl queue create FIGS"),
        (
            missing.no_queue("ORDER", ["ORDERS"]),
            "did you mean ORDERS? if not, create it with: qmctl queue create ORDER",
        ),
        (missing.no_queue("@EWR", []), "create it with: qmctl link create EWR HOST:PORT"),
        (
            missing.no_target("A", "B"),
            "create it with: qmctl queue create B; or name another target with: qmctl queue alter "
            "A --alias-of QUEUE",
        ),
        (missing.no_subscription("A:a", ["A.a"]), "see: qmctl sub ls"),
        (missing.no_subscription("A:s", ["B:s"]), "did you mean B:s? see: qmctl sub ls"),
        (missing.no_template("APP", []), "see: qmctl template ls"),
        (missing.no_link("NYC"), "create it with: qmctl link create NYC HOST:PORT"),
        (missing.no_link("NYC", leads_here=True), "to end these links: qmctl link disallow NYC"),
        (
            refusal(Access("bob"), Needed(Right.CREATE, Kind.QUEUE, "A")),
            "an administrator can grant it with: qmctl grant create --user bob create queue A",
        ),
        (
            refusal(Access("bob"), Needed(Right.PUBLISH, Kind.TOPIC, "a/#")),
            "an administrator can grant it with: qmctl grant create --user bob publish topic 'a/#'",
        ),
        (
            refusal(Access("bob"), Needed(Right.SHOW, Kind.MANAGER, "")),
            "an administrator can grant it with: qmctl grant create --user bob show manager",
        ),
        (
            refusal(Access("bob"), Needed(Right.PUT, Kind.QUEUE, "*")),
            "an administrator can grant it with: qmctl grant create --user bob put queue '*'",
        ),
        (
            refusal(Access("bob"), Needed(Right.ADMIN, Kind.USER, "eve")),
            "ask an administrator: only the role administrator has this right",
        ),
        (attributes.put_inhibited("Q"), "allow them with: qmctl queue alter Q --no-put-inhibit"),
        (attributes.get_inhibited("Q"), "allow them with: qmctl queue alter Q --no-get-inhibit"),
        (
            undeletable("SYSTEM.DEAD.LETTERS"),
            "empty it with: qmctl queue purge SYSTEM.DEAD.LETTERS",
        ),
        (
            undeletable("SYSTEM.PUBLICATIONS"),
            "each publication is deleted after its last subscriber",
        ),
        (
            taken("Q", Member(b"a group", 1), "exists"),
            "check whether it was put before: qmctl group show Q 'a group'",
        ),
        (
            intervention_errors.no_reader("Q", 4),
            "start a consumer of groups; see: qmctl connection ls",
        ),
        (from_peers("EWR", is_known=False), "qmctl link allow EWR"),
        (from_peers("EWR", is_known=True), f"qmctl link allow EWR --store-id {'0b' * 16}"),
        (from_peers("EWR", is_known=True, has_link=True), "qmctl link start EWR --accept"),
    ],
    ids=lambda value: value.text[:40] if isinstance(value, RequestError) else "",
)
def test_error_of_the_daemon_has_a_command(error: RequestError, expected: str) -> None:
    assert "qmctl" not in error.text
    assert remedy.of(error) == expected


def test_hint_of_the_daemon_comes_before_the_catalogue() -> None:
    full = RequestError(ErrorCode.QUEUE_FULL, "queue Q is full; consume some")
    assert remedy.of(full) == "consume some"
    assert remedy.of(RequestError(ErrorCode.QUEUE_FULL, "full")) == (
        "get or purge messages, or wait and put again"
    )


def test_invalid_name_has_no_other_remedy() -> None:
    assert remedy.of(RequestError(ErrorCode.NAME_INVALID, "a/b has a /")) == ""
    assert remedy.general(ErrorCode.NAME_INVALID).startswith(
        "use 1 to 64 of A-Z a-z 0-9 . _ -, or "
    )


def test_names_are_quoted_for_the_shell() -> None:
    ended = RequestError(ErrorCode.GROUP_ENDED, "group a;b on queue Q ends with number 2")
    assert remedy.of(ended).endswith("see: qmctl group show Q 'a;b'")
