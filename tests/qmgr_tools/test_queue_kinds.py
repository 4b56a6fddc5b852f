"""Tests that qmctl creates and shows queues of all kinds, with all their options."""

import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_alias_is_created_shown_led_elsewhere_and_deleted(qm: Qmctl, queue: str) -> None:
    alias = f"{queue}.alias"
    assert qm("queue", "create", alias, "--alias-of", queue).out == f"created queue {alias}\n"
    qm("put", alias, "x")
    assert qm("get", alias).code == qm("browse", queue).code == 0
    assert f"alias of\t{queue}" in qm("queue", "show", alias).out.splitlines()
    ended = qm("queue", "alter", alias, "--alias-of", f"{queue}.other")
    assert ended.out == f"altered queue {alias}: alias of {queue} -> {queue}.other\n"
    refused = qm("put", alias, "x")
    assert refused.code == 3
    assert f"{alias} is an alias of queue {queue}.other, which does not exist here" in refused.err
    dry = qm("queue", "delete", alias, "--dry-run")
    assert dry.out.startswith(
        f"would delete alias {alias}; queue {queue}.other is kept; nothing changed"
    )
    assert qm("queue", "purge", alias, "--yes").code == 6
    assert qm("queue", "delete", alias).code == 0


def test_other_options_are_given_shown_by_section_and_taken_back(qm: Qmctl, queue: str) -> None:
    name = f"{queue}.full"
    words = [
        "--retry-initial",
        "1s",
        "--retry-factor",
        "1.5",
        "--overflow",
        "discard-oldest",
        "--exclusive",
        "--breaker-percent",
        "50%",
        "--backout-queue",
        "A@B",
    ]
    assert qm("queue", "create", name, *words).code == 0
    row = qm("queue", "show", name, "-o", "json").json
    assert (row["retry_factor"], row["overflow"], row["exclusive"]) == (1.5, "discard-oldest", True)
    assert {"retry initial\t1 s", "retry factor\t1.5", "exclusive\tyes", "breaker percent\t50"} <= (
        set(qm("queue", "show", name).out.splitlines())
    )
    ended = qm("queue", "alter", name, "--retry-factor", "default", "--no-exclusive")
    assert ended.out == f"altered queue {name}: exclusive yes -> no; retry factor 1.5 -> 2.0\n"
    again = qm("queue", "create", name, "--exclusive")
    assert again.code == 6
    assert "it already exists with other attributes: exclusive is no, requested yes; " in again.err


def test_system_queue_is_not_deleted_and_its_prefix_is_reserved(qm: Qmctl) -> None:
    assert qm("queue", "show", "SYSTEM.EVENTS").code == 0
    ended = qm("queue", "delete", "SYSTEM.EVENTS", "--purge", "--yes")
    assert (ended.code, "QUEUE_IS_SYSTEM" in ended.err) == (6, True)
    ended = qm("queue", "create", "SYSTEM.MINE")
    assert (ended.code, "are reserved" in ended.err) == (2, True)
