"""Tests of the errors about names that do not exist."""

import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.missing import (
    is_published,
    no_link,
    no_queue,
    no_subscription,
    no_target,
    no_template,
)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (no_queue("FIGS", ["ORDERS"]), ErrorCode.QUEUE_UNKNOWN, "queue FIGS does not exist"),
        (no_queue("ORDER", ["ORDERS"]), ErrorCode.QUEUE_UNKNOWN, "did you mean ORDERS?"),
        (no_queue("@EWR", []), ErrorCode.QUEUE_UNKNOWN, "queue @EWR does not exist here; create"),
        (no_target("SALES", "ORDERS"), ErrorCode.QUEUE_UNKNOWN, "SALES is an alias of queue ORD"),
        (no_subscription("A:lat", ["A:late"]), ErrorCode.SUBSCRIPTION_UNKNOWN, "mean A:late?"),
        (no_subscription("A:a", ["A.a"]), ErrorCode.SUBSCRIPTION_UNKNOWN, "A:a does not exist"),
        (no_link("NYC"), ErrorCode.LINK_UNKNOWN, "link NYC does not exist; create it"),
        (no_template("APP", ["APP.*"]), ErrorCode.TEMPLATE_UNKNOWN, "template APP does not exist"),
        (no_template("AP.*", ["APP.*"]), ErrorCode.TEMPLATE_UNKNOWN, "did you mean APP.*?"),
    ],
)
def test_text_states_fact_and_remedy(error: RequestError, code: ErrorCode, words: str) -> None:
    assert error.code is code
    assert words in error.text


def test_put_to_a_subscription_is_refused_with_advice() -> None:
    error = is_published("B:late")
    assert error.code == ErrorCode.QUEUE_IS_SUBSCRIPTION
    assert error.text == ("B:late receives only publications: put to a topic such as /flights/JFK")
