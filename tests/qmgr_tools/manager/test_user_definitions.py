"""Definitions of users and roles, and the requests that make them match."""

from typing import Any

import pytest

from qmgr_tools.manager import user_definitions as of

BOB: dict[str, Any] = of.normal({"grants": ["get,put queue Q"]}, of.USER_DEFAULTS)


def test_grants_are_in_one_order_and_exist_once() -> None:
    given = {"grants": ["put queue Q", "get queue Q", "get,put  queue Q", "show manager"]}
    assert of.normal(given, of.ROLE_DEFAULTS) == {"grants": ["show manager", "get,put queue Q"]}


@pytest.mark.parametrize(
    ("before", "after", "calls"),
    [
        (BOB, BOB, []),
        (None, BOB, [("user_create", ("bob",)), ("grant_create", (["get", "put"], "queue", "Q"))]),
        (
            BOB,
            BOB | {"grants": ["browse,put queue Q"]},
            [
                ("grant_delete", (["get"], "queue", "Q")),
                ("grant_create", (["browse"], "queue", "Q")),
            ],
        ),
        (BOB, BOB | {"enabled": False}, [("user_alter", ("bob",))]),
        (BOB | {"verifier": "v"}, BOB, []),  # The password is kept.
        (BOB | {"verifier": "v"}, BOB | {"verifier": "w"}, [("user_alter", ("bob",))]),
    ],
)
def test_only_differences_are_requested(
    before: dict[str, Any] | None, after: dict[str, Any], calls: list[Any]
) -> None:
    """A right that stays is not revoked in between."""
    assert [(method, found) for method, found, _ in of.user_calls("bob", before, after)] == calls


def test_verifier_is_never_shown() -> None:
    shown = of.changed(BOB | {"verifier": "old"}, BOB | {"verifier": "new"}, of.USER_DEFAULTS)
    assert shown == {"password": ["set", "set"]}


@pytest.mark.parametrize(
    ("existing", "wanted", "names"),
    [
        ({"a": "EWR", "b": "NYC"}, {"a": "NYC", "b": "EWR"}, ["a", "b"]),
        ({"a": "EWR", "b": ""}, {"a": "", "b": "EWR"}, ["a"]),
        ({"a": "EWR"}, {"b": "EWR"}, []),  # A user that is not in the file is not changed.
        ({"a": "EWR", "b": ""}, {"a": "EWR", "b": "NYC"}, []),
        ({"a": "EWR", "b": ""}, {"a": "LAX", "b": ""}, []),
    ],
)
def test_user_leaves_its_queue_manager_before_another_user_gets_it(
    existing: dict[str, str], wanted: dict[str, str], names: list[str]
) -> None:
    def rows(of_users: dict[str, str]) -> dict[str, Any]:
        return {name: BOB | {"queue_manager": manager} for name, manager in of_users.items()}

    assert of.unbound(rows(existing), rows(wanted)) == names


def test_administrators_come_first() -> None:
    users = {"a": BOB, "z": BOB | {"roles": ["administrator"]}}
    assert of.in_order(users) == ["z", "a"]
