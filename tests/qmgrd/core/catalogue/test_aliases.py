"""Tests of the aliases of a queue."""

from qmgrd.core.catalogue.aliases import Aliases

from qmgrd.core.catalogue.named import Alias


def test_oldest_alias_of_a_target_is_found_until_none_is_left() -> None:
    aliases = Aliases()
    for name in ("A", "B"):
        aliases.add(Alias(name, "Q"))
    assert aliases.first_of("Q") == "A"
    aliases.remove(Alias("A", "Q"))
    assert aliases.first_of("Q") == "B"
    aliases.remove(Alias("B", "Q"))
    assert aliases.first_of("Q") is None
    assert not aliases
