"""Tests that errors of interventions state what happened and what to do, with a code."""

import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.queue.group import intervention_errors as errors
from tests.group_player import group_id

A = group_id("A")


@pytest.mark.parametrize(
    ("error", "code", "fact", "remedy"),
    [
        (errors.not_ahead_error(A, 3), ErrorCode.VALUE_INVALID, "at number 3", "a higher one"),
        (
            errors.beyond_end_error(A, 99, 3),
            ErrorCode.VALUE_INVALID,
            "continue with 99",
            "4 at most",
        ),
        (
            errors.no_members_error(A),
            ErrorCode.VALUE_INVALID,
            "group A has no messages on the queue",
            "number",
        ),
        (
            errors.leased_member_error("Q", A, 2, "billing"),
            ErrorCode.GROUP_IN_USE,
            "number 2 of group A on queue Q is leased to billing",
            "pause the group until then",
        ),
        (
            errors.leased_member_error("Q", A, 2, ""),
            ErrorCode.GROUP_IN_USE,
            "to a client without a name",
            "close the connection",
        ),
        (errors.no_reader_error("Q", 0), ErrorCode.GROUP_NO_READER, "no other connection", "start"),
        (errors.no_reader_error("Q", 9), ErrorCode.GROUP_NO_READER, "connection 9", "start"),
    ],
)
def test_refusal_states_a_fact_and_a_remedy(
    error: RequestError, code: ErrorCode, fact: str, remedy: str
) -> None:
    said, _, todo = error.text.partition("; ")
    assert (error.code, fact in said, remedy in todo) == (code, True, True)
