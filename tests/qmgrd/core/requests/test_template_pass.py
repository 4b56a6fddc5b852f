"""Tests that a template for many queues is applied in slices, before the answer is sent."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.ticking import MS_NS, Ticking

QUEUES = 400


class Many:
    """A manager of 400 queues. A turn has time for a few queues."""

    def __init__(self) -> None:
        self.clock = Ticking()
        self.manager = Manager(limits={"turn_ms": 2}, clock_ns=self.clock)
        self.app, self.other = self.manager.connect(), self.manager.connect()
        for number in range(QUEUES):
            self.app.send(m.QueueCreate(number + 1, f"Q{number:04}"))
        self.manager.rest()
        self.app.hear()
        self.clock.step_ns = MS_NS

    def held(self) -> int:
        """The number of queues to which the template applies."""
        return sum(self.manager.queue(f"Q{n:04}").bounds.depth_max == 1 for n in range(QUEUES))

    def set(self) -> int:
        """Sets a template for all queues; returns the number of turns until the answer."""
        self.app.send(m.TemplateSet(500, "Q*", {"depth_max": 1}))
        return self.until_answered()

    def until_answered(self) -> int:
        for count in range(1, 1_000):
            self.manager.turn()
            for message in self.app.hear():
                assert type(message) is m.Ok
                assert message.value["queues"] == self.held() == QUEUES
                return count
        raise AssertionError("no answer")


@pytest.fixture
def many() -> Many:
    return Many()


def test_others_are_served_while_queues_follow_a_template(many: Many) -> None:
    many.app.send(m.TemplateSet(500, "Q*", {"depth_max": 1}))
    answers = 0
    while many.held() < QUEUES:
        before = many.held()
        many.other.send(m.Status(1))
        many.manager.turn()
        answers += len(many.other.hear())
        assert many.held() - before <= 100
    assert answers >= 4


def test_many_changes_take_two_passes(many: Many) -> None:
    """Requests that arrive during a pass share the next pass."""
    alone = many.set()
    many.app.ask(m.TemplateDelete, "Q*")
    for number in range(200):
        many.app.send(m.TemplateSet(number + 1, f"Q*{'*' * (number % 40)}", {"depth_max": 1}))
    turns, answers = 0, 0
    while answers < 200:
        many.manager.turn()
        turns += 1
        answers += len(many.app.hear())
        # Each request is an arrival, and a turn accepts only one arrival here.
        assert turns < 3 * alone + 200


def test_new_queue_has_the_template_at_once_and_a_deleted_one_stops_nothing(many: Many) -> None:
    many.app.send(m.TemplateSet(500, "*", {"depth_max": 1}))
    many.manager.turn()
    assert many.held() < QUEUES
    many.other.ask(m.QueueCreate, "A")
    many.other.ask(m.QueueDelete, f"Q{QUEUES - 1:04}")
    many.other.put("A", b"x")
    assert many.other.put_records("A", record(b"y"))[0].code is ErrorCode.QUEUE_FULL
    many.manager.rest()
    assert [message.value["queues"] for message in many.app.hear()] == [QUEUES]  # 399 queues, and A


def test_restart_in_the_middle_holds_all_queues_to_the_template(many: Many) -> None:
    many.app.send(m.TemplateSet(500, "Q*", {"depth_max": 1}))
    many.manager.turn()
    assert many.held() < QUEUES
    many.manager.crash()
    assert many.held() == QUEUES
    assert many.manager.connect().ask(m.TemplateList)["templates"][0]["queues"] == QUEUES


def test_template_that_makes_a_queue_its_own_backout_queue_changes_nothing(app: Client) -> None:
    app.ask(m.QueueCreate, "BACK")
    app.ask(m.TemplateSet, "B*", {"depth_max": 7})
    for pattern in ("B*", "BAC*", "BACK"):
        code = app.code_of(m.TemplateSet, pattern, {"backout_queue": "BACK"})
        assert code is ErrorCode.VALUE_INVALID
    assert app.show("BACK")["depth_max"] == 7
    assert len(app.ask(m.TemplateList)["templates"]) == 1
    app.ask(m.TemplateSet, "*", {"backout_queue": "BACK"})  # A different template applies to BACK.
    assert app.code_of(m.TemplateDelete, "B*") is ErrorCode.VALUE_INVALID
    assert app.show("BACK")["template"] == "B*"


def test_same_template_again_is_answered_without_a_pass(many: Many) -> None:
    many.set()
    many.app.send(m.TemplateSet(500, "Q*", {"depth_max": 1}))
    assert many.until_answered() == 1
