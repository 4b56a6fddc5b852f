from typing import Any

import pytest

from qmgr_protocol import admin_messages, layout
from qmgr_protocol import messages as m
from qmgr_protocol.states import FROM_DIALLER

KINDS = [kind for kind in vars(admin_messages).values() if hasattr(kind, "_fields")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_is_a_request_like_any_other(kind: type[Any]) -> None:
    """Operators' messages differ from others by nothing but where they are written down."""
    assert getattr(m, kind.__name__) is kind
    assert kind._fields[0] == "request_id"
    assert kind in layout.NUMBERS
    assert kind in FROM_DIALLER
