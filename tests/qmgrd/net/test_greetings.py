"""Compares the greetings in progress with a list of them."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.net.greetings import Greetings
from qmgrd.net.session import UNIX

NETWORKS = ["10.0.0.1", "10.0.0.2", "10.0.0.3", UNIX]


class Session:
    def __init__(self, network: str) -> None:
        self.network = network


@given(
    st.lists(
        st.one_of(
            st.sampled_from(NETWORKS),
            st.tuples(st.sampled_from(["discard", "advance"]), st.integers(0, 30)),
        ),
        max_size=60,
    )
)
def test_greetings_are_counted_as_in_a_list(steps: list[Any]) -> None:
    """A text adds a greeting from this network. A pair changes the greeting at this place."""
    greetings, model = Greetings(), []
    progress: list[Any] = []  # the same sessions, in the order of their last progress
    for now_ms, step in enumerate(steps):
        if isinstance(step, str):
            model.append((cast(Any, Session(step)), now_ms))
            greetings.add(*model[-1])
            progress.append(model[-1][0])
        elif step[1] < len(model):
            session, _ = model[step[1]]
            progress.remove(session)
            if step[0] == "advance":
                progress.append(session)
                greetings.advanced(session)
                continue
            del model[step[1]]
            greetings.discard(session)
            greetings.discard(session)  # The second time, it has no effect.
            greetings.advanced(session)  # Neither has this.
        networks = [session.network for session, _ in model]
        assert len(greetings) == len(model)
        assert greetings.oldest() == (model[0] if model else None)
        assert [greetings.count(x) for x in NETWORKS] == [networks.count(x) for x in NETWORKS]
        remote = [network for network in networks if network != UNIX]
        assert greetings.remote_count == len(remote)
        if remote:
            busiest = greetings.busiest_network()
            assert remote.count(busiest) == max(map(remote.count, remote))
            oldest = greetings.oldest_of(busiest)
            assert oldest is next(x for x in progress if x.network == busiest)
