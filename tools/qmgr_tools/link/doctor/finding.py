"""Findings about a link, and the verdict on the link.

A note reports a past problem, or a problem that resolves itself. Only present problems affect the
verdict. A link that recovered is therefore ok, and operators can clear every alarm.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """The severity of a finding."""

    NOTE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        """The name of the severity, for scripts."""
        return self.name.lower()

    @property
    def verdict(self) -> str:
        """The verdict on a link with no worse finding."""
        return self.word if self else "ok"


@dataclass(frozen=True, slots=True)
class Choice:
    """A remedy: a command and its effect on messages, or only advice if the command is ""."""

    command: str
    effect: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: what was observed, the cause, and the remedies, best first."""

    code: str
    severity: Severity
    what: str
    why: str
    choices: tuple[Choice, ...] = ()

    @property
    def remedy(self) -> str:
        """The command of the best remedy, or ""."""
        return self.choices[0].command if self.choices else ""

    def row(self) -> dict[str, Any]:
        """Returns the object for scripts."""
        return {
            "code": self.code,
            "severity": self.severity.word,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
            "choices": [{"command": c.command, "effect": c.effect} for c in self.choices],
        }


def worst(findings: Iterable[Finding]) -> Severity:
    """Returns the highest severity of *findings*."""
    return max((found.severity for found in findings), default=Severity.NOTE)


def text_of(error: object) -> tuple[str, str]:
    """Returns the code and the text of a daemon's error "CODE: text"."""
    code, colon, text = str(error or "").partition(": ")
    return (code, text) if colon and code.isupper() else ("", str(error or ""))
