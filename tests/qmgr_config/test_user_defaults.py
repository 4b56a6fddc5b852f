"""Limits of users in the configuration."""

import pytest
from pydantic import ValidationError

from qmgr_config.model import Config
from qmgr_config.user_defaults import UserDefaults
from qmgr_protocol.limits import USER_LIMITS


@pytest.mark.parametrize("name", USER_LIMITS)
def test_range_of_a_default_is_the_range_of_the_limit(name: str) -> None:
    known = USER_LIMITS[name]
    for value in (known.low, known.high):
        config = Config.model_validate({"user_defaults": {name: value}})
        assert getattr(config.user_defaults, name) == value
    for value in (known.low - 1, known.high + 1):
        with pytest.raises(ValidationError, match=name):
            Config.model_validate({"user_defaults": {name: value}})


def test_sizes_may_have_units() -> None:
    assert UserDefaults(stored_bytes_max="1 GiB").stored_bytes_max == 2**30  # type: ignore[arg-type]
