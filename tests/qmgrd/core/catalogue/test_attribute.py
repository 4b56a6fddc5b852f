"""Tests of valid and invalid values of one attribute, and of how errors quote these values."""

from typing import Any

import pytest

from qmgr_protocol.errors import RequestError
from qmgr_protocol.limits import QUEUE_ATTRIBUTES, QUEUE_LIMITS
from qmgrd.core.catalogue.attribute import check, label


@pytest.mark.parametrize("attribute", QUEUE_LIMITS)
def test_ends_of_a_span_belong_to_it(attribute: str) -> None:
    low, high = QUEUE_LIMITS[attribute]
    check("queue", "Q", attribute, low)
    check("queue", "Q", attribute, high)
    for value, word in ((low - 1, "small"), (high + 1, "large")):
        with pytest.raises(RequestError, match=f"{label(attribute)} of queue Q: .*too {word}"):
            check("queue", "Q", attribute, value)


@pytest.mark.parametrize("attribute", QUEUE_ATTRIBUTES)
@pytest.mark.parametrize("value", [None, [], {}, b"x", "no such thing", "x" * 9_999])
def test_value_of_another_type_is_refused_in_few_words(attribute: str, value: Any) -> None:
    with pytest.raises(RequestError) as caught:
        check("template", "APP.*", attribute, value)
    assert "APP.*" in caught.value.text
    assert len(caught.value.text) < 250


def test_command_name_has_no_unit() -> None:
    assert label("expiry_max_ms") == "expiry max"
    assert label("message_max_bytes") == "message max"
    assert label("bytes_max") == "bytes max"
