"""Tests of the limit of the selectors of all connections and subscriptions."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.limits.open_selectors import OpenSelectors
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.pubsub import Hub

WHERE = "priority > 3"


def test_users_share_what_others_leave() -> None:
    """Any number of users leaves something to the next one, and gives back what ends."""
    found = OpenSelectors(1_000)

    def room(owner: str) -> int:
        count = 0
        while True:
            try:
                found.check(owner, "x", ErrorCode.CONSUMERS_EXHAUSTED)
            except RequestError:
                return count
            found.change(owner, 1)
            count += 1

    assert [room(owner) for owner in ("ann", "eve", "bob")] == [500, 250, 125]
    assert room("") == 125
    assert room("dan") == 0
    found.change("ann", -500)
    assert room("dan") == 250


def test_consumers_gets_and_subscriptions_share_the_limit() -> None:
    hub = Hub(limits={"selectors_max_length": 6 * len(WHERE)})
    hub.app.ask(m.QueueCreate, "Q")
    rights = ("subscribe topic t", "create subscription B:*", "get queue Q")
    user = Guarded(hub.manager).user("ann", *rights)

    def codes() -> list[ErrorCode]:
        return [
            user.code_of(m.Consume, "Q", 1, 1, 0, WHERE),
            user.code_of(m.Get, "Q", 1, 0, 0, 1, WHERE),
            user.code_of(m.Subscribe, "t", "B:2", WHERE),
        ]

    refused = [ErrorCode.CONSUMERS_EXHAUSTED] * 2 + [ErrorCode.SUBSCRIPTIONS_EXHAUSTED]
    get = m.Get(user.next_id(), "Q", 1, 60_000, 0, 1, WHERE)
    user.send(get)
    user.ask(m.Consume, "Q", 1, 1, 0, WHERE)
    user.ask(m.Subscribe, "t", "B:1", WHERE)
    assert codes() == refused
    user.send(m.Cancel(get.request_id))
    user.ask(m.Subscribe, "t", "", WHERE)
    assert codes() == refused
    user.ask(m.Subscribe, "t", "B:1", WHERE)  # The subscription exists.
    for stop in (user.hang_up, hub.crash):
        stop()
        hub.manager.rest()
        user = hub.manager.connect("ann", user="ann")
        for _ in range(2):
            user.ask(m.Consume, "Q", 1, 1, 0, WHERE)
        assert codes() == refused
    hub.app.ask(m.Unsubscribe, "B:1")
    user.ask(m.Consume, "Q", 1, 1, 0, WHERE)
    assert codes() == refused
