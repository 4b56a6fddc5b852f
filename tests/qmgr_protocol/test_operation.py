"""Tests that each message has one complete declaration."""

from typing import Any, NamedTuple, cast, get_args

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.field_type import Flag, Id, Name
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import Kind, Need, Right
from qmgr_protocol.operation import AnsweredBy, Growth, Operation, Role, request

EACH = pytest.mark.parametrize(
    "found", OPERATIONS.values(), ids=[found.kind.__name__ for found in OPERATIONS.values()]
)
DECLARED = {found.kind for found in OPERATIONS.values()}


def test_all_messages_of_the_module_are_declared_and_in_the_union() -> None:
    """A class is incomplete without the decorator, or outside the union for type checkers."""
    classes = {
        found
        for found in vars(m).values()
        if isinstance(found, type) and issubclass(found, tuple) and found.__module__ == m.__name__
    }
    assert len(classes) == 95
    assert classes == DECLARED
    assert set(get_args(m.Message)) == DECLARED
    parts = [*get_args(m.Greeting), *get_args(m.Answer), *get_args(m.Request)]
    assert len(parts) == 95, "a message is in two unions"


def test_requests_of_the_union_are_those_declared_as_requests() -> None:
    declared = {found.kind for found in OPERATIONS.values() if found.request is not None}
    assert set(get_args(m.Request)) == declared
    with_id = {kind for kind in declared if kind._fields[0] == "request_id"}
    assert set(get_args(m.RequestWithId)) == with_id
    assert (len(declared), len(with_id)) == (79, 75)
    assert set(get_args(m.MessageWithId)) == {
        x for x in DECLARED if x._fields[:1] == ("request_id",)
    }


@EACH
def test_message_may_be_sent_by_somebody(found: Operation) -> None:
    assert found.dialler or found.listener or found.moves


@EACH
def test_number_fits_one_byte_of_msgpack(found: Operation) -> None:
    assert 0 < found.number < 128
    assert OPERATIONS[found.number] is found


@EACH
def test_each_field_has_a_check_and_a_plain_type(found: Operation) -> None:
    assert len(found.checks) == len(found.kind._fields)
    assert not [x for x in found.kind.__annotations__.values() if hasattr(x, "__metadata__")]


@EACH
def test_fields_that_may_be_left_out_have_defaults(found: Operation) -> None:
    names = found.kind._fields[found.written_always :]
    assert set(names) <= set(found.kind._field_defaults)


@EACH
def test_answer_of_a_request_is_a_message_that_a_listener_sends(found: Operation) -> None:
    if found.request is None or found.request.answered_by is AnsweredBy.NONE:
        return
    kind = getattr(m, found.request.answered_by.value)
    assert kind in get_args(m.Answer)
    (answer,) = [each for each in OPERATIONS.values() if each.kind is kind]
    assert answer.listener is Role.ANY


@EACH
def test_request_that_an_ok_answers_names_its_id_first(found: Operation) -> None:
    """An Ok and an Error refer to a request by its id."""
    if found.request and found.request.answered_by in (AnsweredBy.OK, AnsweredBy.DELIVER):
        assert found.kind._fields[0] == "request_id"


@EACH
def test_only_requests_that_need_a_right_of_a_peer_need_a_queue_manager(found: Operation) -> None:
    if found.request is not None:
        needs_peer = any(need.kind is Kind.PEER for need in found.request.needs)
        assert needs_peer == (found.dialler is Role.QUEUE_MANAGER)


class Twice(NamedTuple):
    """A message with a number that is already in use."""

    request_id: Id
    purge: Flag = False


def test_number_is_used_once() -> None:
    with pytest.raises(AssertionError, match="41 is QueueDelete"):
        request(41, Need(Right.ADMIN), Growth.NOTHING)(cast(Any, Twice))
    assert OPERATIONS[41].kind is m.QueueDelete


def test_field_without_limits_is_refused() -> None:
    class Unlimited(NamedTuple):
        request_id: Id
        anything: Any

    with pytest.raises(AssertionError, match=r"Unlimited\.anything has no limits"):
        request(99, Need(Right.ADMIN), Growth.NOTHING)(cast(Any, Unlimited))
    assert 99 not in OPERATIONS


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        ((), "Named needs no right"),
        (Need(Right.SHOW), r"Named\.queue names an object without a need"),
        (Need(Right.GET, Kind.QUEUE, "place"), "place"),
        (Need(Right.GET, Kind.QUEUE), "QUEUE"),
        (Need(Right.GET, Kind.MANAGER, "queue"), "MANAGER"),
        (Need(Right.GET, Kind.QUEUE, "queue", when="later"), "later"),
        (Need(Right.GET, Kind.QUEUE, "queue.alias_of"), "alias_of"),
    ],
)
def test_request_with_incomplete_needs_cannot_be_declared(needs: Any, why: str) -> None:
    """A request without a right, or with a name that no right covers, cannot be declared."""

    class Named(NamedTuple):
        request_id: Id
        queue: Name
        purge: Flag = False

    with pytest.raises(AssertionError, match=why):
        request(99, needs, Growth.NOTHING)(cast(Any, Named))
    assert 99 not in OPERATIONS


NAME_ATTRIBUTES = {"alias_of", "backout_queue"}  # attributes of queues whose values are names
OF_LINKS = {"routes"}  # attributes of links whose values are names of other links
WITH_NAMES = {m.QueueCreate: 2, m.QueueAlter: 2, m.TemplateSet: 1, m.LinkCreate: 1, m.LinkAlter: 1}


def test_attributes_that_are_names_have_needs() -> None:
    """A template has no alias. The attributes of topics and subscriptions have no names."""
    for found in OPERATIONS.values():
        if found.request is not None and "attributes" in found.kind._fields:
            named = [x.field for x in found.request.needs if x.field.startswith("attributes.")]
            assert len(named) == WITH_NAMES.get(cast(Any, found.kind), 0)
            assert {name.partition(".")[2] for name in named} <= NAME_ATTRIBUTES | OF_LINKS
