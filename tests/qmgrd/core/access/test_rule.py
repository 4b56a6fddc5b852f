"""The rules that decide how a connection may log in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.access_rule import AccessRule
from qmgrd.core.access.origin import Origin, Tls
from qmgrd.core.access.rule import METHODS, OPEN, SCRAM, SCRAM_PLUS, TOKEN, Rules

UNIX, LOOPBACK = Origin("unix"), Origin("127.0.0.1")
REMOTE = Origin("10.1.2.3", False)
ENCRYPTED = REMOTE._replace(tls=Tls(b"hash"))
CERTIFIED = REMOTE._replace(tls=Tls(b"hash", "CN=a", (), "ab" * 32))


def rules(*rows: dict[str, Any]) -> Rules:
    return Rules([AccessRule.model_validate({"method": SCRAM} | row) for row in rows])


def decides(origin: Origin, user: str, *rows: dict[str, Any]) -> int:
    """Returns the number of the rule that decides, or 0."""
    rule = rules(*rows).verdict(origin, user, SCRAM).rule
    return 0 if rule is None else rule.number


@pytest.mark.parametrize(
    ("source", "fitting"),
    [
        ("any", [UNIX, LOOPBACK, REMOTE]),
        ("unix", [UNIX]),
        ("loopback", [LOOPBACK]),
        ("10.0.0.0/8", [REMOTE]),
        ("10.1.2.3", [REMOTE]),
        ("10.1.2.4", []),
        ("127.0.0.0/8", [LOOPBACK]),
        ("0.0.0.0/0", [LOOPBACK, REMOTE]),
        ("::/0", []),
        ("fd00::/8", []),
    ],
)
def test_source_is_compared(source: str, fitting: list[Origin]) -> None:
    found = [x for x in (UNIX, LOOPBACK, REMOTE) if decides(x, "app", {"from": source})]
    assert found == fitting


@pytest.mark.parametrize("address", ["::ffff:10.1.2.3", "10.1.2.3"])
def test_address_of_version_4_is_the_same_in_both_forms(address: str) -> None:
    assert decides(Origin(address, False), "app", {"from": "10.1.0.0/16"}) == 1


def test_address_of_version_6_is_compared() -> None:
    origin = Origin("2001:db8::1", False)
    assert decides(origin, "app", {"from": "2001:db8::/32"}) == 1
    assert decides(origin, "app", {"from": "10.0.0.0/8"}) == 0
    assert decides(Origin("fe80::1%eth0", False), "app", {"from": "fe80::/10"}) == 1


@pytest.mark.parametrize(
    ("tls", "fitting"),
    [
        ("any", [REMOTE, ENCRYPTED, CERTIFIED]),
        ("required", [ENCRYPTED, CERTIFIED]),
        ("certificate", [CERTIFIED]),
    ],
)
def test_encryption_is_compared(tls: str, fitting: list[Origin]) -> None:
    origins = (REMOTE, ENCRYPTED, CERTIFIED)
    assert [x for x in origins if decides(x, "app", {"tls": tls})] == fitting


def test_user_is_compared() -> None:
    row = {"user": ["billing", "shop-*"]}
    fitting = [x for x in ("billing", "shop-1", "shop-", "shop", "", "x") if decides(UNIX, x, row)]
    assert fitting == ["billing", "shop-1", "shop-"]


def test_first_rule_that_fits_decides_alone() -> None:
    rows: list[dict[str, Any]] = [
        {"user": "app", "method": "certificate"},
        {"user": "bad", "method": "refuse"},
        {"method": [SCRAM, TOKEN]},
    ]
    found = rules(*rows)
    first = found.verdict(UNIX, "app", SCRAM)
    assert not first.is_allowed
    assert first.why == "rule 1 allows certificate, but not scram-sha-256"
    assert found.verdict(UNIX, "bad", SCRAM).why == "rule 2 refuses this login"
    assert found.verdict(UNIX, "other", SCRAM).why == "rule 3 allows scram-sha-256"


def test_connection_that_no_rule_fits_is_refused() -> None:
    found = rules({"from": "unix"}).verdict(REMOTE, "app", SCRAM)
    assert (found.is_allowed, found.rule, found.why) == (False, None, "no rule fits")


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (UNIX, METHODS),
        (LOOPBACK, METHODS),
        (REMOTE, ()),
        (ENCRYPTED, METHODS[:-1]),
        (CERTIFIED, METHODS[:-1]),
    ],
)
def test_default_rules(origin: Origin, allowed: tuple[str, ...]) -> None:
    found = Rules(())
    assert tuple(x for x in METHODS if found.verdict(origin, "", x).is_allowed) == allowed
    assert tuple(x for x in METHODS if found.may_use(origin, x)) == allowed
    assert found.is_default
    assert not list(found.unreachable())


def test_token_is_never_accepted_in_plain_text() -> None:
    found = rules({"method": [TOKEN, OPEN]})
    for origin, is_allowed in ((REMOTE, False), (LOOPBACK, True), (UNIX, True), (ENCRYPTED, True)):
        assert found.verdict(origin, "app", TOKEN).is_allowed is is_allowed
        assert found.may_use(origin, TOKEN) is is_allowed


@pytest.mark.parametrize(
    ("earlier", "later", "is_hidden"),
    [
        ({}, {"user": "app"}, True),
        ({"from": "any"}, {"from": ["unix", "10.0.0.0/8"]}, True),
        ({"from": "10.0.0.0/8"}, {"from": "10.1.0.0/16"}, True),
        ({"from": "10.1.0.0/16"}, {"from": "10.0.0.0/8"}, False),
        ({"from": ["10.0.0.0/8", "unix"]}, {"from": ["unix", "10.1.0.0/16"]}, True),
        ({"from": "10.0.0.0/8"}, {"from": "fd00::/8"}, False),
        ({"from": "0.0.0.0/0"}, {"from": "any"}, False),
        ({"from": "loopback"}, {"from": "127.0.0.1"}, True),
        ({"from": "127.0.0.0/8"}, {"from": "loopback"}, False),
        ({"user": "shop-*"}, {"user": ["shop-1", "shop-2-*"]}, True),
        ({"user": "shop-*"}, {"user": ["shop-1", "billing"]}, False),
        ({"user": "a*"}, {"user": "*"}, False),
        ({"tls": "required"}, {"tls": "certificate"}, True),
        ({"tls": "required"}, {"tls": "any"}, False),
    ],
)
def test_rule_that_no_connection_reaches_is_found(
    earlier: dict[str, Any], later: dict[str, Any], *, is_hidden: bool
) -> None:
    found = [(rule.number, by.number) for rule, by in rules(earlier, later).unreachable()]
    assert found == ([(2, 1)] if is_hidden else [])


SOURCES = ["any", "unix", "loopback", "10.0.0.0/8", "10.1.2.3", "127.0.0.1", "::/0"]
ROWS = st.fixed_dictionaries(
    {
        "from": st.lists(st.sampled_from(SOURCES), min_size=1, max_size=2),
        "user": st.lists(st.sampled_from(["*", "a*", "*b", "ab", "c"]), min_size=1, max_size=2),
        "tls": st.sampled_from(["any", "required", "certificate"]),
    }
)


@given(
    st.lists(ROWS, min_size=1, max_size=4),
    st.sampled_from([UNIX, LOOPBACK, REMOTE, ENCRYPTED, CERTIFIED]),
    st.sampled_from(["", "ab", "a", "xb", "c"]),
)
def test_rule_that_is_called_unreachable_never_decides(
    rows: list[dict[str, Any]], origin: Origin, user: str
) -> None:
    hidden = {rule.number for rule, _ in rules(*rows).unreachable()}
    assert decides(origin, user, *rows) not in hidden


def test_method_also_allows_its_bound_form_but_not_the_reverse() -> None:
    for method, others in ((SCRAM, (SCRAM, SCRAM_PLUS)), (SCRAM_PLUS, (SCRAM_PLUS,))):
        found = rules({"method": method})
        assert tuple(x for x in METHODS if found.verdict(ENCRYPTED, "a", x).is_allowed) == others
        assert tuple(x for x in METHODS if found.may_use(ENCRYPTED, x)) == others
