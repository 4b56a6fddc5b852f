"""Compares the greetings in progress with a list of them."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.net.greetings import Greetings
from qmgrd.net.session import UNIX

ORIGINS = ["10.0.0.1", "10.0.0.2", "10.0.0.3", UNIX]


class Session:
    def __init__(self, origin: str) -> None:
        self.origin = origin


@given(st.lists(st.one_of(st.sampled_from(ORIGINS), st.integers(0, 30)), max_size=60))
def test_greetings_are_counted_as_in_a_list(steps: list[Any]) -> None:
    """A text adds a greeting from this origin, and a number discards the greeting at this place."""
    greetings, model = Greetings(), []
    for now_ms, step in enumerate(steps):
        if isinstance(step, str):
            model.append((cast(Any, Session(step)), now_ms))
            greetings.add(*model[-1])
        elif step < len(model):
            session, _ = model.pop(step)
            greetings.discard(session)
            greetings.discard(session)  # The second time, it has no effect.
        origins = [session.origin for session, _ in model]
        assert len(greetings) == len(model)
        assert greetings.oldest() == (model[0] if model else None)
        assert [greetings.count(x) for x in ORIGINS] == [origins.count(x) for x in ORIGINS]
        remote = [origin for origin in origins if origin != UNIX]
        assert greetings.remote_count == len(remote)
        if remote:
            busiest = greetings.busiest_origin()
            assert remote.count(busiest) == max(map(remote.count, remote))
            oldest = greetings.oldest_of(busiest)
            assert oldest is next(x for x, _ in model if x.origin == busiest)
