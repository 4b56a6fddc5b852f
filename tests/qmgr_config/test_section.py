"""The base of the tables of the configuration."""

import pytest
from pydantic import ValidationError

from qmgr_config.section import Section


class Example(Section):
    """[example]"""

    number: int = 1
    """A number."""


def test_unknown_keys_are_refused_and_fields_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Example.model_validate({"nummer": 2})
    example = Example()
    with pytest.raises(ValidationError, match="frozen"):
        example.number = 2


def test_text_under_a_field_is_its_description() -> None:
    assert Example.descriptions() == {"number": "A number."}
