"""Tests that each type of field includes a check of its limits."""

from typing import Annotated, get_args, get_origin

import pytest

from qmgr_protocol import field, field_type, messages
from qmgr_protocol.field import description_of

TYPES = {
    name: found
    for module in (field_type, messages)
    for name, found in vars(module).items()
    if get_origin(found) is Annotated
}


def test_all_types_are_looked_at() -> None:
    assert len(TYPES) > 40


@pytest.mark.parametrize("name", TYPES)
def test_type_has_one_check_with_a_description(name: str) -> None:
    _, *checks = get_args(TYPES[name])
    (check,) = checks
    assert description_of(check)["type"]


def test_ids_and_numbers_have_the_limits_of_the_wire() -> None:
    assert get_args(field_type.Id)[1] is field.ID
    assert description_of(field.ID) == {"type": "integer", "min": 1, "max": 2**32 - 1}
    assert description_of(field.SEQ) == {"type": "integer", "min": 1, "max": 2**63 - 1}
