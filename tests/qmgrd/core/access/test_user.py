"""The stored row of a user or a role."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import RequestError
from qmgr_protocol.limits import USER_LIMITS
from qmgr_protocol.need import GRANTED_KINDS
from qmgr_protocol.verifier import Verifier
from qmgrd.core.access.grant import Grant, check
from qmgrd.core.access.user import User, decode
from qmgrd.core.layout.owner import name_of

PATTERNS = st.text("ABC*.:@~-", min_size=1, max_size=20)
TIMES = st.integers(0, 2**62)


def _pattern(kind: str) -> st.SearchStrategy[str]:
    if kind == "manager":
        return st.just("")
    return st.sampled_from(["#", "a/+", "a/b/#"]) if kind == "topic" else PATTERNS


GRANTS = st.sampled_from(sorted(GRANTED_KINDS)).flatmap(
    lambda kind: st.builds(
        lambda right, pattern: check(right.value, kind, pattern),
        st.sampled_from(GRANTED_KINDS[kind]),
        _pattern(kind),
    )
)
KEYS = st.binary(min_size=32, max_size=32)
VERIFIERS = st.builds(
    Verifier, st.binary(min_size=12, max_size=64), KEYS, KEYS, st.integers(4_096, 1_000_000)
)
USERS = st.builds(
    User,
    st.just("app"),
    st.none() | VERIFIERS,
    st.lists(st.text("abc", min_size=1, max_size=9), max_size=3).map(tuple),
    st.lists(GRANTS, max_size=5).map(tuple),
    st.booleans(),
    TIMES,
    TIMES,
    st.sampled_from(["", "NYC"]),
    st.integers(0, 2**62),
    st.dictionaries(st.sampled_from(["newer", "newest"]), TIMES | st.text(), max_size=2),
    st.dictionaries(st.sampled_from(list(USER_LIMITS)), st.integers(0, 100_000)),
)


@given(USERS)
def test_stored_user_is_the_same_after_it_was_read(user: User) -> None:
    """Fields of a newer version are kept."""
    assert decode("app", user.encode()) == user


@given(st.lists(GRANTS, max_size=5), st.lists(GRANTS, max_size=5))
def test_grant_exists_once_and_is_removed_with_one_request(
    first: list[Grant], second: list[Grant]
) -> None:
    user = User("app").with_grants(first).with_grants(second).with_grants(first)
    assert len(user.grants) == len(set(user.grants))
    assert set(user.grants) == {*first, *second}
    assert set(user.without_grants(first).grants) == {*second} - {*first}


def test_owner_states_the_number_of_a_user_if_it_has_one() -> None:
    """Rows of older versions have no number, and their owners are names."""
    assert [User("app").owner, User("app", number=7).owner] == ["app", "app#7"]
    assert {name_of("app"), name_of("app#7")} == {"app"}


VALID = unpack(User("app", roles=("consumer",), grants=(check("put", "queue", "Q"),)).encode())


@pytest.mark.parametrize(
    "changed",
    [
        {"verifier": "SCRAM-SHA-256$1:a$b:c"},
        {"verifier": 5},
        {"roles": None},
        {"roles": [5]},
        {"grants": None},
        {"grants": [["put", "queue"]]},
        {"grants": [["fly", "queue", "Q"]]},
        {"grants": [["admin", "user", "app"]]},
        {"enabled": 1},
        {"enabled": None},
        {"created_us": "now"},
        {"altered_us": None},
        {"limits": None},
        {"limits": {"wings_max": 5}},
        {"limits": {"queues_max": -1}},
        {"limits": {"queues_max": "5"}},
        {"queue_manager": 5},
        {"number": "one"},
    ],
    ids=str,
)
def test_damaged_row_is_no_user(changed: dict[str, Any]) -> None:
    """A row without a flag must not become the row of an enabled user."""
    assert decode("app", pack(VALID)).is_enabled
    with pytest.raises((ValueError, TypeError, RequestError)):
        decode("app", pack(VALID | changed))


def test_row_of_an_older_version_has_no_limits() -> None:
    assert "limits" not in VALID
    assert decode("app", pack(VALID)).limits == {}


@pytest.mark.parametrize("row", [[], 5, "x", None])
def test_row_of_another_form_is_no_user(row: Any) -> None:
    with pytest.raises(ValueError, match="not a map"):
        decode("app", pack(row))
