"""Tests of the errors about names that do not exist."""

import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.missing import (
    put_to_subscription_error,
    unknown_link_error,
    unknown_queue_error,
    unknown_subscription_error,
    unknown_target_error,
    unknown_template_error,
)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            unknown_queue_error("FIGS", ["ORDERS"]),
            ErrorCode.QUEUE_UNKNOWN,
            "queue FIGS does not exist",
        ),
        (unknown_queue_error("ORDER", ["ORDERS"]), ErrorCode.QUEUE_UNKNOWN, "did you mean ORDERS?"),
        (
            unknown_queue_error("@EWR", []),
            ErrorCode.QUEUE_UNKNOWN,
            "queue @EWR does not exist here; create",
        ),
        (
            unknown_target_error("SALES", "ORDERS"),
            ErrorCode.QUEUE_UNKNOWN,
            "SALES is an alias of queue ORD",
        ),
        (
            unknown_subscription_error("A:lat", ["A:late"]),
            ErrorCode.SUBSCRIPTION_UNKNOWN,
            "mean A:late?",
        ),
        (
            unknown_subscription_error("A:a", ["A.a"]),
            ErrorCode.SUBSCRIPTION_UNKNOWN,
            "A:a does not exist",
        ),
        (unknown_link_error("NYC"), ErrorCode.LINK_UNKNOWN, "link NYC does not exist; create it"),
        (
            unknown_template_error("APP", ["APP.*"]),
            ErrorCode.TEMPLATE_UNKNOWN,
            "template APP does not exist",
        ),
        (
            unknown_template_error("AP.*", ["APP.*"]),
            ErrorCode.TEMPLATE_UNKNOWN,
            "did you mean APP.*?",
        ),
    ],
)
def test_text_states_fact_and_remedy(error: RequestError, code: ErrorCode, words: str) -> None:
    assert error.code is code
    assert words in error.text


def test_put_to_a_subscription_is_refused_with_advice() -> None:
    error = put_to_subscription_error("B:late")
    assert error.code == ErrorCode.QUEUE_IS_SUBSCRIPTION
    assert error.text == ("B:late receives only publications: put to a topic such as /flights/JFK")
