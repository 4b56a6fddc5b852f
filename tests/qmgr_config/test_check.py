"""Checks of names and paths."""

from pathlib import Path

import pytest

from qmgr_config.check import checked_name, checked_name_or_nothing, checked_path


@pytest.mark.parametrize("name", ["A", "a.b_c-9", "x" * 64])
def test_name_is_returned(name: str) -> None:
    assert checked_name(name) == checked_name_or_nothing(name) == name


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 65, "a/b"])
def test_other_text_is_not_a_name(name: str) -> None:
    for check in (checked_name, checked_name_or_nothing):
        with pytest.raises(ValueError, match="is not a name"):
            check(name)


def test_only_one_of_the_checks_allows_no_name() -> None:
    assert checked_name_or_nothing("") == ""
    with pytest.raises(ValueError, match="is not a name"):
        checked_name("")


def test_path_is_neither_empty_nor_has_a_nul() -> None:
    assert checked_path(Path("/srv")) == Path("/srv")
    for path in (Path(), Path("/a\0b")):
        with pytest.raises(ValueError, match="is not the path of a directory"):
            checked_path(path)
