"""The built-in roles: what their holders may do, and what they may not."""

import pytest

from qmgr_protocol.need import GRANTED_KINDS, Kind, Right
from qmgrd.core.access.grant import Grant, check
from qmgrd.core.access.role import ADMINISTRATOR, BUILT_IN

POSSIBLE = {(right, Kind(kind)) for kind, rights in GRANTED_KINDS.items() for right in rights}


def rights_of(role: str) -> set[tuple[Right, Kind]]:
    return {(grant.right, grant.kind) for grant in BUILT_IN[role].grants}


def test_built_in_roles_are_these() -> None:
    assert set(BUILT_IN) == {ADMINISTRATOR, "operator", "monitor", "producer", "consumer", "peer"}
    assert all(role.name == name for name, role in BUILT_IN.items())
    assert [role.name for role in BUILT_IN.values() if role.is_peer] == ["peer"]


@pytest.mark.parametrize("role", BUILT_IN)
def test_grants_of_built_in_roles_could_be_granted(role: str) -> None:
    """So no built-in role has a right on users or roles."""
    for grant in BUILT_IN[role].grants:
        assert check(*grant.encode()) == grant


def test_operator_may_do_everything_but_read_bodies_and_pass_for_a_peer() -> None:
    lacking = {Right.GET, Right.BROWSE, Right.SUBSCRIBE, Right.LINK, Right.FETCH}
    lacking |= {Right.FORWARD}
    assert rights_of("operator") == {x for x in POSSIBLE if x[0] not in lacking}


def test_monitor_may_only_look() -> None:
    assert rights_of("monitor") == {x for x in POSSIBLE if x[0] is Right.SHOW}


@pytest.mark.parametrize("role", ["operator", "monitor"])
def test_operators_and_monitors_have_rights_on_system_and_remote_queues(role: str) -> None:
    for name in ("Q", "SYSTEM.DEAD.LETTERS", "Q@NYC"):
        assert any(
            grant.kind is Kind.QUEUE and grant.right is Right.SHOW and grant.covers(name)
            for grant in BUILT_IN[role].grants
        )


@pytest.mark.parametrize("role", ["producer", "consumer", "peer"])
def test_applications_and_peers_have_no_rights_on_system_and_remote_queues(role: str) -> None:
    grants = [grant for grant in BUILT_IN[role].grants if grant.kind is Kind.QUEUE]
    assert all(grant.covers("Q") for grant in grants)
    assert not any(grant.covers(x) for grant in grants for x in ("SYSTEM.EVENTS", "Q@NYC"))


def test_producer_only_puts_and_consumer_only_gets() -> None:
    assert rights_of("producer") == {(Right.PUT, Kind.QUEUE), (Right.PUBLISH, Kind.TOPIC)}
    assert not {right for right, _ in rights_of("consumer")} & {Right.PUT, Right.PUBLISH}
    assert Grant(Right.GET, Kind.QUEUE, "*") in BUILT_IN["consumer"].grants


def test_administrator_has_no_grants_that_a_pattern_could_limit() -> None:
    assert BUILT_IN[ADMINISTRATOR].grants == ()
