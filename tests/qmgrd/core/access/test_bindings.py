"""Tests that users act only as their queue managers. See also test_peer_rights.py."""

import pytest

from qmgr_config.model import Config
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.access.bindings import Bindings
from qmgrd.core.access.user import User
from qmgrd.core.context.context import Context

EWR = User("ewr", queue_manager="EWR")


@pytest.fixture
def bindings() -> Bindings:
    found = Bindings(Context(Config(), "NYC", b"S" * 16, 1))
    found.bind(EWR)
    return found


@pytest.mark.parametrize(
    ("user", "manager", "is_admitted"),
    [
        ("ewr", "EWR", True),
        ("ewr", "LAX", False),
        ("eve", "EWR", False),
        ("eve", "LAX", True),
        ("", "EWR", True),  # the owner of the daemon
    ],
)
def test_bound_user_and_its_queue_manager_belong_to_each_other(
    bindings: Bindings, user: str, manager: str, *, is_admitted: bool
) -> None:
    error = bindings.impostor(user, manager)
    assert (error is None) is is_admitted
    assert error is None or error.code == ErrorCode.PEER_USER_WRONG


def test_binding_ends(bindings: Bindings) -> None:
    bindings.unbind(EWR)
    assert bindings.impostor("eve", "EWR") is None
    assert bindings.user_of("EWR") == ""


def test_queue_manager_has_one_user(bindings: Bindings) -> None:
    assert bindings.check(EWR, "EWR") == "EWR"
    assert bindings.check(User("eve"), "") == ""
    with pytest.raises(RequestError, match="user ewr is already bound to queue manager EWR"):
        bindings.check(User("eve"), "EWR")
    with pytest.raises(RequestError, match="NAME_INVALID"):
        bindings.check(User("eve"), "E WR")
