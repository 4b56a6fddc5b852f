"""What is asked about history."""

from typing import Any

import pytest

from qmgr_protocol import history_messages, layout
from qmgr_protocol import messages as m
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.states import FROM_DIALLER, FROM_LISTENER

KINDS = [getattr(history_messages, name) for name in history_messages.__all__]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_is_a_request_like_any_other(kind: type[Any]) -> None:
    assert getattr(m, kind.__name__) is kind
    assert kind._fields[0] == "request_id"
    assert kind in layout.NUMBERS
    assert kind in FROM_DIALLER
    assert kind not in FROM_LISTENER


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (m.HistoryRead(1, -1), r"HistoryRead\.after: "),
        (m.HistoryRead(1, 0, 2**63), r"HistoryRead\.until: "),
        (m.HistoryRead(1, 0, 0, 2**32), r"HistoryRead\.bytes_max: "),
        (m.CursorCommit(1, 7, 1), r"CursorCommit\.cursor: "),  # type: ignore[arg-type]
        (m.CursorCommit(1, "A", 2**63), r"CursorCommit\.position: "),
        (m.CursorDelete(1, 7), r"CursorDelete\.cursor: "),  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, tuple) else "",
)
def test_field_out_of_range_is_refused_in_words(message: Any, why: str) -> None:
    with pytest.raises(FieldInvalid, match=why):
        layout.parse(list(layout.to_array(message)))
