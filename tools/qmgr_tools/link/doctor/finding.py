"""Findings about a link, and the verdict on it.

A note reports a past problem, or one that resolves itself. Only present problems affect the
verdict. So a link that recovered is ok, and no alarm stays on that an operator cannot clear.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How bad a finding is."""

    NOTE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        """Its name, for scripts."""
        return self.name.lower()

    @property
    def verdict(self) -> str:
        """The verdict on a link with no worse finding."""
        return self.word if self else "ok"


@dataclass(frozen=True, slots=True)
class Choice:
    """A remedy: a command, and its effect on messages. Without a command: wait, or check."""

    command: str
    effect: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: what, since when, how much; the cause; and the remedies, the best one first."""

    code: str
    severity: Severity
    what: str
    why: str
    choices: tuple[Choice, ...] = ()

    @property
    def remedy(self) -> str:
        """The command to type; it may be empty."""
        return self.choices[0].command if self.choices else ""

    def row(self) -> dict[str, Any]:
        """Return the object for scripts."""
        return {
            "code": self.code,
            "severity": self.severity.word,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
            "choices": [{"command": c.command, "effect": c.effect} for c in self.choices],
        }


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity of *findings*."""
    return max((found.severity for found in findings), default=Severity.NOTE)


def text_of(error: object) -> tuple[str, str]:
    """Return code and text of a daemon's error, "CODE: text"."""
    code, colon, text = str(error or "").partition(": ")
    return (code, text) if colon and code.isupper() else ("", str(error or ""))
