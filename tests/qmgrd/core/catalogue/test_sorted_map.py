"""Tests of a map that keeps its keys in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.catalogue.sorted_map import SortedMap


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_map_behaves_as_a_dict_in_the_order_of_its_keys(changes: list[tuple[int, bool]]) -> None:
    found, model = SortedMap[int, int](), dict[int, int]()
    for value, (key, is_added) in enumerate(changes):
        if is_added:
            found[key] = model[key] = value
        elif key in model:
            assert found.pop(key) == model.pop(key)
        assert list(found) == found.order == sorted(model)
        assert list(found.values()) == [model[key] for key in sorted(model)]
        assert len(found) == len(model)
        assert [found.get(key) for key in range(10)] == [model.get(key) for key in range(10)]
        assert [key for key in range(10) if key in found] == sorted(model)


def test_key_that_is_missing_is_an_error() -> None:
    found = SortedMap[str, int]()
    with pytest.raises(KeyError):
        found.pop("a")
    with pytest.raises(KeyError):
        found["a"]
    assert found.get("a") is None
