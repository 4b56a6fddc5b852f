from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.frame import FrameDecoder, encode
from tests.qmgr_protocol import golden
from tests.qmgr_protocol.strategies import MESSAGES, VALUES, messages_of, mutated_arrays

KINDS = pytest.mark.parametrize("kind", layout.NUMBERS, ids=lambda kind: kind.__name__)


def over_the_wire(array: Any) -> list[Any]:
    decoder = FrameDecoder(2**20)
    decoder.feed(encode(array))
    ((found, _),) = decoder.drain()
    return found


def quick_fields(kind: type[Any]) -> int:
    """Returns the number of fields that a busy connection sends and that the quick test checks."""
    return len(signature(layout.QUICK[kind]).parameters)


def required(kind: type[Any]) -> int:
    return len(kind._fields) - len(kind._field_defaults)


@given(MESSAGES)
def test_sent_message_is_read(message: m.Message) -> None:
    assert layout.parse(over_the_wire(layout.to_array(message))) == message


@given(MESSAGES, st.lists(VALUES, min_size=1, max_size=3))
def test_elements_of_a_newer_peer_are_ignored(message: m.Message, tail: list[Any]) -> None:
    assert layout.parse([layout.NUMBERS[type(message)], *message, *tail]) == message


@given(MESSAGES, st.integers(0, 20))
def test_fields_missing_at_the_end_take_their_defaults(message: m.Message, count: int) -> None:
    kind = type(message)
    array = list(layout.to_array(message))[: 1 + count]
    if count >= required(kind):
        assert layout.parse(array) == kind(*message[:count])
    else:
        with pytest.raises(FieldInvalid, match="is missing"):
            layout.parse(array)


@given(mutated_arrays())
def test_mutated_message_is_read_or_refused(array: list[Any]) -> None:
    try:
        message = layout.parse(array)
    except FieldInvalid as error:
        refusal = str(error)
    else:
        refusal = ""
        for value, check in zip(message, layout.checks_of(type(message)), strict=True):
            assert check(value) == ""
    assert len(refusal) < 1_000


@pytest.mark.parametrize("kind", layout.QUICK, ids=lambda kind: kind.__name__)
def test_quick_test_lets_nothing_pass_that_the_checks_refuse(kind: type[Any]) -> None:
    """The limits of a frequent message are defined twice, and both definitions must agree."""

    @given(st.data())
    def law(data: st.DataObject) -> None:
        fields = list(data.draw(messages_of(kind)))[: quick_fields(kind)]
        for place in range(len(fields)):
            if data.draw(st.booleans()):
                fields[place] = data.draw(EDGES | VALUES)
        quick = layout.QUICK[kind](*fields)
        slow = not any(
            check(value) for value, check in zip(fields, layout.checks_of(kind), strict=False)
        )
        assert slow or not quick

    law()


EDGES: st.SearchStrategy[Any] = st.sampled_from(
    [
        0,
        1,
        2,
        3,
        -1,
        True,
        False,
        2**32 - 1,
        2**32,
        2**63 - 1,
        2**63,
        1.0,
        None,
        "",
        "x" * 64,
        "x" * 1_024,
        "x" * 1_025,
        b"",
        b"h" * 17,
        b"h" * 16,
        b"h" * 170_000,
        b"h" * 170_017,
        [],
        [b""],
        [""],
        [b"", 1],
        [[1, 1, 1]],
        [[1, 1]],
        [[0, 1, 1]],
        [[1, 2, "x"]],
        {},
    ]
)


@pytest.mark.parametrize("kind", layout.QUICK, ids=lambda kind: kind.__name__)
def test_usual_message_passes_the_quick_test(kind: type[Any]) -> None:
    usual = next(message for message in golden.MESSAGES.values() if type(message) is kind)
    assert layout.QUICK[kind](*usual[: quick_fields(kind)])


@given(st.sampled_from([m.Put, m.Settle]).flatmap(messages_of), st.integers(0, 5))
def test_what_has_its_default_at_the_end_of_a_hot_message_is_left_out(
    message: m.Message, count: int
) -> None:
    kind = type(message)
    plain = kind(*message[: quick_fields(kind)])
    assert layout.to_array(plain) == (layout.NUMBERS[kind], *message[: quick_fields(kind)])
    grown = kind(*message[: quick_fields(kind) + count])
    assert layout.parse(over_the_wire(layout.to_array(grown))) == grown


@KINDS
def test_default_passes_its_check(kind: type[Any]) -> None:
    checks = dict(zip(kind._fields, layout.checks_of(kind), strict=True))
    for name, default in kind._field_defaults.items():
        assert checks[name](default) == ""


@pytest.mark.parametrize(
    ("array", "request_id"),
    [
        ([99], 0),
        ([99, 41], 41),
        ([99, 0], 0),
        ([99, -1], 0),
        ([99, True], 0),
        ([99, "41"], 0),
        ([-1, 41], 41),
        ([2**64 - 1, 41], 41),
    ],
)
def test_unknown_operation_names_its_request(array: list[Any], request_id: int) -> None:
    with pytest.raises(m.OperationUnknown) as caught:
        layout.parse(array)
    assert (caught.value.operation, caught.value.request_id) == (array[0], request_id)


REPLIES: dict[type[Any], list[Any]] = {
    m.ProducerOpen: [1, 7, [9, 10], [[5, 303, "full"]], [[9, 1_700_000, 2]]],
    m.LinkOpen: [1, 7, [9, 10], b"QM1" + bytes(8), 4_096, 7, 0, b"L" * 16],
    m.Consume: [12, 30_000],
    m.UnitPut: [[[1, 303, "full"]], [[0, 1_700_000_000_000_000, 1]]],
}


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_reply_is_checked(kind: type[Any]) -> None:
    good = REPLIES[kind]
    layout.check_reply(kind, good)
    layout.check_reply(kind, [*good, "of a newer peer"])
    wrong: list[Any] = [None, {}, "abcde", b"abcde", good[:-1], [-1, *good[1:]], [*good[:-1], -1]]
    for value in wrong:
        with pytest.raises(FieldInvalid, match=rf"^Ok\.value of {kind.__name__}: "):
            layout.check_reply(kind, value)


def test_reply_of_a_link_that_has_nothing_yet_names_no_uid() -> None:
    layout.check_reply(m.LinkOpen, [1, 0, [], None, 4_096, 7, 0, b""])


def test_refusal_names_message_field_and_limit() -> None:
    with pytest.raises(FieldInvalid, match=r"^Get\.messages_max: 0 is not an integer from 1 to"):
        layout.parse([23, 1, "Q", 0])


def test_attribute_is_a_value_or_a_list_of_values() -> None:
    """Attributes are not nested, because receivers must show, compare and store them."""
    layout.parse([61, 1, "NYC", {"addresses": ["a:1", "b:2"], "stopped": False, "share": 1.5}])
    wrong: list[Any] = [{}, [[]], [{}], b"x", "x" * 1_025]
    for value in wrong:
        with pytest.raises(FieldInvalid, match=r"LinkCreate\.attributes: under 'addresses'"):
            layout.parse([61, 1, "NYC", {"addresses": value}])
