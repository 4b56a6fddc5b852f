"""What is wrong with a link: findings, and the verdict that they come to.

A note tells of what was, or what goes by itself; only what is wrong now makes a verdict. So a link
that had a bad night and is well again is ok, and no alarm stays on that nobody can put off.
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
        """What is said of a link of which nothing is worse."""
        return self.word if self else "ok"


@dataclass(frozen=True, slots=True)
class Choice:
    """What can be done: a command, and what it does to messages. No command: wait, or look."""

    command: str
    effect: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is found: what, since when, how much; why; and what can be done.

    The first choice is the one to take where nothing speaks against it.
    """

    code: str
    severity: Severity
    what: str
    why: str
    choices: tuple[Choice, ...] = ()

    @property
    def remedy(self) -> str:
        """The command to type, or nothing."""
        return self.choices[0].command if self.choices else ""

    def row(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "code": self.code,
            "severity": self.severity.word,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
            "choices": [{"command": c.command, "effect": c.effect} for c in self.choices],
        }


def worst(findings: Iterable[Finding]) -> Severity:
    """Return how bad the worst of *findings* is."""
    return max((found.severity for found in findings), default=Severity.NOTE)


def text_of(error: object) -> tuple[str, str]:
    """Return the code and the text of an error as a daemon tells it: "CODE: text"."""
    code, colon, text = str(error or "").partition(": ")
    return (code, text) if colon and code.isupper() else ("", str(error or ""))
