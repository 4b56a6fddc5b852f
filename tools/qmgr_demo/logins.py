"""The logins and refusals that the queue managers recorded in their audit."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

LINK, CLIENT, OWNER = "scram-sha-256-plus", "scram-sha-256", "owner of the daemon"


@dataclass(slots=True)
class Logins:
    """Logins by method, and refusals.

    A daemon records the first login of a user at once and counts further ones for a minute, so a
    kill with -9 loses these counts.
    """

    accepted: Counter[str] = field(default_factory=Counter)  # by method
    refused: int = 0
    denied: Counter[str] = field(default_factory=Counter)  # requests without a right, by user

    @property
    def otherwise(self) -> int:
        """The number of logins by a method that the demo does not use."""
        return self.accepted.total() - sum(self.accepted[x] for x in (LINK, CLIENT, OWNER))


def recorded(logs: Iterable[Path]) -> Logins:
    """Returns the logins and refusals in the *logs* of daemons. Each log has lines of JSON."""
    found = Logins()
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            if '"audit"' not in line:
                continue
            entry = json.loads(line)
            if entry["event"] != "audit":
                continue
            if entry["result"] == "NOT_AUTHORIZED":
                found.denied[entry.get("user", "")] += entry["count"]
            elif entry["action"] == "Login" and entry["result"] == "OK":
                found.accepted[entry.get("method", "")] += entry["count"]
            elif entry["action"] == "Login":
                found.refused += entry["count"]
    return found
