"""Tests of the findings about a refused link, for each reason that a daemon reports."""

from typing import Any

import pytest

from qmgr_config.model import Config
from qmgr_protocol.errors import RequestError
from qmgr_tools.link.doctor import refused as link_refused
from qmgr_tools.link.doctor.finding import Finding, Severity
from qmgr_tools.link.link import ACCEPTABLE
from qmgrd.core.context.context import Context
from qmgrd.core.layout.kv import Now
from tests.memory_store import MemoryStore

ACCEPT = "qmctl link start NYC --accept"


def refusal(here: str, name: str, *, has_link: bool = False, is_known: bool = True) -> str:
    """Returns the error of queue manager *here* about *name*, whose store is not accepted."""
    context = Context(Config(), here, b"S" * 16, 1)
    context.tx, context.now = MemoryStore(), Now(0, 0)
    if is_known:
        context.peers.allow(name, b"\x0a" * 16)
    with pytest.raises(RequestError) as caught:
        context.peers.admit(name, b"\x0b" * 16, has_link=has_link)
    return caught.value.text


def found(error: str, waiting: int = 7) -> Finding:
    row: dict[str, Any] = {"link": "NYC", "state": "refused", "addresses": ["nyc:7470"]}
    return link_refused.found(row | {"error": error, "waiting": waiting, "paths": []})


@pytest.mark.parametrize(
    ("error", "code", "remedy", "says"),
    [
        (
            "PEER_WRONG: the queue manager at nyc:7470 is LGA, not NYC; correct the address",
            "refused-peer-wrong",
            "qmctl link alter NYC HOST:PORT",
            "nyc:7470 is LGA, not NYC",
        ),
        (
            f"PEER_STORE_CHANGED: {refusal('NYC', 'EWR')}",
            "refused-peer-store-changed",
            f"qmctl -c nyc:7470 link allow EWR --store-id {'0b' * 16}",
            "NYC does not accept EWR:",
        ),
        (
            f"PEER_STORE_CHANGED: {refusal('EWR', 'NYC', has_link=True)}",
            "refused-peer-store-changed",
            ACCEPT,
            "NYC has a different store than before",
        ),
        (
            f"PEER_NOT_ALLOWED: {refusal('NYC', 'EWR', is_known=False)}",
            "refused-peer-not-allowed",
            "qmctl -c nyc:7470 link allow EWR",
            "NYC accepts no links from this queue manager",
        ),
        (
            "PEER_NOT_ALLOWED: no",
            "refused-peer-not-allowed",
            "qmctl -c nyc:7470 link allow NAME",
            "NYC accepts no links from this queue manager",
        ),
        (
            "RESTORED: NYC holds up to id 9, but the next id to assign here is 5: this is older",
            "refused-restored",
            ACCEPT,
            "this store is older",
        ),
        (
            "PEER_RESTORED: NYC holds up to id 40, but had committed 52: its store was restored",
            "refused-peer-restored",
            ACCEPT,
            "lacks 12 messages (ids 41 to 52)",
        ),
        (
            "STORE_DAMAGED: the peer: checksum",
            "refused-store-damaged",
            "qmctl store verify SNAPSHOT",
            "is damaged: the peer: checksum",
        ),
        ("NAME_INVALID: a/b", "refused-name-invalid", "qmctl link start NYC", "NAME_INVALID: a/b"),
        ("something else", "refused-unknown", "qmctl link start NYC", "something else"),
        ("", "refused-unknown", "qmctl link start NYC", "no reason is"),
    ],
)
def test_refusal_is_told_with_what_is_safe(error: str, code: str, remedy: str, says: str) -> None:
    finding = found(error)
    assert (finding.code, finding.severity, finding.remedy) == (code, Severity.CRITICAL, remedy)
    assert says in finding.what
    assert "7 messages, stored safely" in finding.what
    assert finding.why


@pytest.mark.parametrize("code", sorted(ACCEPTABLE))
def test_accepting_is_told_with_what_may_arrive_twice(code: str) -> None:
    effects = {choice.command: choice.effect for choice in found(f"{code}: why").choices}
    assert "arrive twice" in effects[ACCEPT]
    assert found(f"{code}: why", 0).what.endswith("; it stays refused; it holds no messages")
    none = {choice.command: choice.effect for choice in found(f"{code}: why", 0).choices}
    assert "no message arrives twice" in none[ACCEPT]


def test_peer_that_is_not_allowed_is_told_what_allowing_it_does() -> None:
    allow, start = found(f"PEER_NOT_ALLOWED: {refusal('NYC', 'EWR', is_known=False)}").choices
    assert allow.effect.startswith("at NYC: ")
    assert allow.effect.endswith("(see qmctl status here), NYC accepts no other store")
    assert start.command == "qmctl link start NYC"


AT_5 = "NYC holds up to id 9, but the next id to assign here is 5: this store was restored"
OTHER = "NYC and this store hold different messages under id 9: one of the two was restored"


@pytest.mark.parametrize(
    ("text", "commit_id", "says"),
    [
        (AT_5, 2, "messages (7) as a new stream: the peer may already"),
        (AT_5, 4, "exactly once: all were put since the restore"),
        (OTHER, 2, "all (up to id 9); of these, consumed"),
        (OTHER, 6, "messages (7) as a new stream: the peer may already"),
        ("why", 2, "new stream: the peer may already have some. Of these, consumed"),
    ],
)
def test_restored_store_counts_only_what_can_arrive_twice(
    text: str, commit_id: int, says: str
) -> None:
    row: dict[str, Any] = {"link": "NYC", "waiting": 7, "commit_id": commit_id}
    finding = link_refused.found(row | {"error": f"RESTORED: {text}"})
    assert finding.remedy == ACCEPT
    assert says in finding.choices[0].effect
    assert "in the backup may have been sent" in finding.why


def test_address_is_that_where_the_peer_was_met() -> None:
    met = {"addresses": ["a:1"], "paths": [{"address": ""}, {"address": "b:2"}]}
    assert link_refused.address_of(met) == "b:2"
    assert link_refused.address_of({"addresses": ["a:1"]}) == "a:1"
    assert link_refused.address_of({"paths": [{"address": "NYC dialled"}]}) == "HOST:PORT"
    assert link_refused.address_of({}) == "HOST:PORT"


def test_accepting_is_offered_only_where_it_helps() -> None:
    for error in (
        "PEER_WRONG: x",
        "PEER_STORE_CHANGED: queue manager EWR has a different store than before",
        "X: y",
    ):
        assert ACCEPT not in [choice.command for choice in found(error).choices]


def test_link_that_asks_again_by_itself_says_when() -> None:
    row = {"link": "NYC", "error": "PEER_NOT_ALLOWED: no", "retry_ms": 12_000}
    assert "it retries in 12 s; it holds no messages" in link_refused.found(row).what
