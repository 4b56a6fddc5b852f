"""Tests that the inputs of the mutation tests exist, and that mutmut's output is parsed."""

from tests.mutate import MODULES, REPO, verdicts


def test_modules_and_their_tests_exist() -> None:
    paths = {path for module in MODULES.values() for path in (module.path, *module.tests)}
    assert [path for path in sorted(paths) if not (REPO / path).is_file()] == []


def test_verdicts_are_parsed() -> None:
    said = "    a.x_f__mutmut_1: killed\n    a.x_f__mutmut_2: no tests\n\n"
    assert dict(verdicts(said)) == {"a.x_f__mutmut_1": "killed", "a.x_f__mutmut_2": "no tests"}
