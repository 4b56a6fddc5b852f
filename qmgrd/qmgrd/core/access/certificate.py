"""Finds the user of a client's certificate ([[auth.certificates]]).

    match = "dns:*.clients.example.org"   user = "{1}"     billing.clients.example.org ─▶ billing

A pattern is compared with a whole name of the certificate, never with a part of it. Its * matches
only characters of user names, and in names of hosts no dot. So no name can pass for another:
"CN=admin,O=Other" does not fit "subject:CN=*", and "a.b.example.org" does not fit
"dns:*.example.org". Upper and lower case differ.
"""

import re
from collections.abc import Sequence

from qmgr_config.certificate_rule import PLACE, CertificateRule
from qmgrd.core.access.origin import Tls

_HOST_TEXT = "([A-Za-z0-9_-]+)"
TEXT = "([A-Za-z0-9._-]+)"


class Certificates:
    """The users of certificates. Holds no state."""

    def __init__(self, configured: Sequence[CertificateRule]) -> None:
        self._entries = [
            (pattern_of(one.match, _HOST_TEXT if one.match.startswith("dns:") else TEXT), one.user)
            for one in configured
        ]

    def user_of(self, tls: Tls | None) -> str:
        """Returns the user of the client's certificate, or "" if it has none.

        The first entry that fits a name of the certificate decides. If it leads to several users,
        the certificate has no user.
        """
        if tls is None or not tls.has_certificate:
            return ""
        names = (f"subject:{tls.subject}", *tls.names)
        for pattern, user in self._entries:
            found = {user_of_fit(user, fit) for fit in map(pattern.fullmatch, names) if fit}
            if found:
                return found.pop() if len(found) == 1 else ""
        return ""


def pattern_of(match: str, text: str = TEXT) -> "re.Pattern[str]":
    """Returns the pattern of *match*, whose * stands for *text*.

    It has at most one group, so matching takes linear time.
    """
    before, star, after = match.partition("*")
    return re.compile(f"{re.escape(before)}{text if star else ''}{re.escape(after)}")


def user_of_fit(user: str, fit: "re.Match[str]") -> str:
    """Returns the user of an entry whose pattern fits."""
    return user.replace(PLACE, fit[1]) if PLACE in user else user
