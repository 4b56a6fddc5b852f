"""References to users."""

import pytest

from qmgrd.core.layout.owner import name_of, owner_of


@pytest.mark.parametrize(("number", "owner"), [(0, "bob"), (7, "bob#7")])
def test_owner_has_the_name_and_the_number(number: int, owner: str) -> None:
    assert owner_of("bob", number) == owner
    assert name_of(owner) == "bob"
