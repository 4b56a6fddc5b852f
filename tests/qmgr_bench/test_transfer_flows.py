import pytest

from qmgr_bench.tap import Tap
from qmgr_bench.transfer_flows import Flows, of_channel, of_confirms, of_tap
from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.frame import encode
from qmgr_proxy.proxy import Way


@pytest.mark.parametrize("messages", [1, 50, 1_000])
def test_confirms_take_four_flows_a_message(messages: int) -> None:
    found = of_confirms(messages)
    assert (found.how, found.messages, found.flows) == ("computed", messages, 4 * messages)
    assert found.messages + found.words == found.flows


@pytest.mark.parametrize(
    ("messages", "batch", "flows"),
    [(1_000, 50, 1_020), (50, 50, 51), (51, 50, 53), (1, 50, 2), (1_000, 1, 2_000)],
)
def test_channel_takes_a_flow_more_for_each_batch(messages: int, batch: int, flows: int) -> None:
    found = of_channel(messages, batch)
    assert (found.how, found.flows) == ("computed", flows)
    assert found.messages + found.words == found.flows


def test_link_takes_each_message_and_each_word_whatever_they_share() -> None:
    tap = Tap()
    sent: list[m.Message] = [
        m.Put(1, 1, 0, "Q", [b"a", b"b"]),
        m.Put(1, 2, 0, "Q", [b"b"]),
        m.CommitAsk(1),
    ]
    back: list[m.Message] = [
        m.Committed(1, 1),
        m.Blocked(1, 2, 303, 5),
        m.Committed(1, 2),
        m.Ping(1),
    ]
    for way, said in ((Way.FORTH, sent), (Way.BACK, back)):
        for message in said:
            tap.take(0, way, encode(layout.to_array(message)))
    frames = [encode(layout.to_array(message)) for message in (*sent, *back[:-1])]
    assert of_tap("link", tap) == Flows("link", "measured", 3, 4, 7, 6, sum(map(len, frames)))
