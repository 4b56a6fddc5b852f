from collections.abc import Iterator

import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


@pytest.fixture
def pattern(qm: Qmctl, queue: str) -> Iterator[str]:
    """A pattern that matches names with the prefix *queue*, and that has a template."""
    pattern = f"{queue}*"
    ended = qm("template", "set", pattern, "--depth-max", "5", "--retry-initial", "1s")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"created template {pattern}, which applies to 1 queue: depth max default -> 5; "
        "retry initial default -> 1 s\n"
    )
    yield pattern
    qm("template", "delete", pattern)


def test_template_is_in_force_and_shown(qm: Qmctl, queue: str, pattern: str) -> None:
    row = qm("queue", "show", queue, "-o", "json").json
    assert (row["depth_max"], row["given"], row["template"]) == (5, [], pattern)
    shown = qm("template", "show", pattern, "-o", "json").json
    assert shown == {
        "pattern": pattern,
        "queues": 1,
        "attributes": {"depth_max": 5, "retry_initial_ms": 1_000},
    }
    lines = qm("template", "show", pattern).out.splitlines()
    assert {f"pattern\t{pattern}", "queues\t1", "depth max\t5", "retry initial\t1 s"} <= set(lines)


def test_templates_are_listed(qm: Qmctl, pattern: str) -> None:
    where = ["--where", f"pattern={pattern.replace('*', '?')}"]
    assert qm("template", "ls", *where).out.splitlines() == [
        "PATTERN\tQUEUES\tGIVES",
        f"{pattern}\t1\tdepth max 5; retry initial 1 s",
    ]
    (row,) = qm("template", "ls", *where, "-o", "json").json
    assert row == qm("template", "show", pattern, "-o", "json").json


def test_template_has_just_what_it_was_given_last(qm: Qmctl, queue: str, pattern: str) -> None:
    ended = qm("template", "set", pattern, "--retry-initial", "1s", "--exclusive")
    assert ended.out == (
        f"altered template {pattern}, which applies to 1 queue: depth max 5 -> default; "
        "exclusive default -> yes\n"
    )
    again = qm("template", "set", pattern, "--retry-initial", "1s", "--exclusive")
    assert again.out == f"template {pattern} is unchanged; it applies to 1 queue\n"
    assert qm("queue", "show", queue, "-o", "json").json["exclusive"] is True


def test_deleted_template_is_not_found(qm: Qmctl, queue: str, pattern: str) -> None:
    assert qm("template", "delete", pattern).out == (
        f"deleted template {pattern}; it applied to 1 queue\n"
    )
    assert qm("queue", "show", queue, "-o", "json").json["template"] is None
    whys = {"show": "the template does not exist", "delete": f"template {pattern} does not exist"}
    for verb, why in whys.items():
        ended = qm("template", verb, pattern)
        said = f"error: cannot {verb} template {pattern} -- {why} "
        assert (ended.code, ended.err.startswith(said)) == (3, True)


@pytest.mark.parametrize("words", [["a b"], ["A@B"], ["X*", "--depth-max", "0"]])
def test_template_that_cannot_be_is_wrong_usage(qm: Qmctl, words: list[str]) -> None:
    assert qm("template", "set", *words).code == 2
