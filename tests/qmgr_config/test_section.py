"""Tables of the configuration."""

import pytest
from pydantic import ValidationError

from qmgr_config.section import Section


class Wings(Section):
    count: int = 2
    """The number of wings."""


def test_table_refuses_unknown_options_and_changes() -> None:
    with pytest.raises(ValidationError, match="wheels"):
        Wings.model_validate({"wheels": 3})
    with pytest.raises(ValidationError, match="frozen"):
        Wings().count = 3


def test_text_under_a_field_describes_it() -> None:
    assert Wings.model_fields["count"].description == "The number of wings."
