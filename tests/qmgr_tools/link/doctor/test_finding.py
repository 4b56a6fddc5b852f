"""Tests of findings and their severity."""

import pytest

from qmgr_tools.link.doctor.finding import Choice, Finding, Severity, text_of, worst


def test_note_makes_no_verdict() -> None:
    note = Finding("resent", Severity.NOTE, "it was", "why")
    assert worst([note]).verdict == "ok"
    assert worst([]).verdict == "ok"
    assert worst([note, Finding("down", Severity.CRITICAL, "", "")]).verdict == "critical"


def test_first_choice_is_the_remedy() -> None:
    both = (Choice("qmctl a", "x"), Choice("qmctl b", "y"))
    row = Finding("down", Severity.WARNING, "what", "why", both).row()
    assert list(row) == ["code", "severity", "what", "why", "remedy", "choices"]
    assert (row["severity"], row["remedy"]) == ("warning", "qmctl a")
    assert row["choices"][1] == {"command": "qmctl b", "effect": "y"}
    assert Finding("gap", Severity.NOTE, "", "").remedy == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("RESTORED: it is", ("RESTORED", "it is")),
        ("127.0.0.1:1: refused", ("", "127.0.0.1:1: refused")),
        ("broken", ("", "broken")),
        (None, ("", "")),
    ],
)
def test_error_is_its_code_and_its_text(error: object, told: tuple[str, str]) -> None:
    assert text_of(error) == told
