"""The rights that a put of a link needs. See also test_peer_rights.py."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right
from qmgrd.core.puts import link_rights
from tests.qmgrd.core.harness import record


def put(queue: str = "Q", origin: str = "NYC") -> m.Put:
    return m.Put(1, 1, 0, queue, [record(b"x", uid=(origin, 1))])


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (put(), [(Right.PUT, "Q")]),
        (put("Q@QM1"), [(Right.PUT, "Q")]),
        (put(origin="EWR"), [(Right.FORWARD, "EWR"), (Right.PUT, "Q")]),
    ],
)
def test_put_needs_each_of_these_rights(found: m.Put, asked: list[tuple[Right, str]]) -> None:
    seen = []
    assert link_rights.lacking(lambda *of: seen.append(of), found, "NYC", "QM1") is None
    assert seen == asked
    for lacked in asked:

        def check(right: Right, name: str, lacked: tuple[Right, str] = lacked) -> None:
            if (right, name) == lacked:
                raise RequestError(ErrorCode.NOT_AUTHORIZED, f"{right.value} {name}")

        error = link_rights.lacking(check, found, "NYC", "QM1")
        assert error is not None
        is_put = lacked[0] is Right.PUT
        assert error.code == (
            ErrorCode.SENDER_NOT_AUTHORIZED if is_put else ErrorCode.NOT_AUTHORIZED
        )


def test_message_in_a_loop_is_no_dead_letter_with_a_forged_uid() -> None:
    """The exemption for messages that come back holds only for senders that may put them."""

    def check(right: Right, name: str) -> None:
        raise RequestError(ErrorCode.NOT_AUTHORIZED, f"{right.value} {name}")

    error = link_rights.lacking(check, put(origin="QM1"), "NYC", "QM1")
    assert error is not None
    assert (error.code, error.text) == (ErrorCode.NOT_AUTHORIZED, "forward QM1")


def test_without_users_no_right_is_needed() -> None:
    assert link_rights.lacking(None, put(origin="EWR"), "NYC", "QM1") is None
