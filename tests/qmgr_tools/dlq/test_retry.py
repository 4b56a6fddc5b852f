"""Tests of the preview of a retry. test_dlq.py also tests the messages that remain."""

import pytest

from qmgr_tools.dlq.retry import dead, is_of_dead
from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("where", "selector"),
    [("", "dead_code IS NOT NULL"), ("a OR b", "dead_code IS NOT NULL AND (a OR b)")],
)
def test_selector_is_about_dead_letters_only(where: str, selector: str) -> None:
    assert dead(where) == selector


@pytest.mark.parametrize(
    ("retries_max", "where", "is_retry"),
    [(3, dead(""), True), (3, dead("a"), True), (0, dead(""), False), (3, "a", False)],
)
def test_move_of_dead_letters_that_are_counted_is_a_retry(
    retries_max: int, where: str, is_retry: bool
) -> None:
    assert is_of_dead({"retries_max": retries_max, "where": where}) is is_retry


def test_dry_run_of_a_retry_is_refused_as_the_job_would_be(qm: Qmctl, queue: str, bad: str) -> None:
    words = ["dlq", "retry", "--queue", bad, "--all", "--to"]
    qm("queue", "create", f"{queue}.ALIAS", "--alias-of", f"{queue}.NONE")
    for to in (f"{queue}.NONE", f"{queue}.ALIAS", bad):
        tried, done = qm(*words, to, "--dry-run"), qm(*words, to)
        assert (tried.code, tried.out, tried.err) == (done.code, "", done.err)
        assert done.code != 0


def test_dry_run_of_a_retry_says_why_it_would_wait(qm: Qmctl, queue: str, bad: str) -> None:
    qm("queue", "alter", queue, "--put-inhibit")
    words = ["dlq", "retry", "--queue", bad, "--all", "--dry-run"]
    note = f"puts are inhibited on {queue}: the job would wait"
    for more in ([], ["--to", queue]):
        assert qm(*words, *more).err == f"note: {note}\n"
        assert qm(*words, *more, "-o", "json").json["waits"] == note
