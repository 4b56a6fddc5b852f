"""The users of clients' certificates: [[auth.certificates]]."""

import re
from typing import Annotated

from pydantic import AfterValidator, model_validator

from qmgr_config.section import Section
from qmgr_config.units import shown

CERTIFICATES_MAX = 1_000
MATCH_MAX = 1_000  # length of a pattern
PLACE = "{1}"  # in user: the text that * matched
_MATCH = re.compile(r"(subject|dns|uri|email|ip):[^*\x00-\x1f]*\*?[^*\x00-\x1f]*")
_USER = re.compile(r"[A-Za-z0-9._-]*(\{1\})?[A-Za-z0-9._-]*")


def _checked_match(value: str) -> str:
    if len(value) <= MATCH_MAX and _MATCH.fullmatch(value) and not value.endswith(":"):
        return value
    raise ValueError(
        f'{shown(value)} is not "subject:", "dns:", "uri:", "email:" or "ip:" and a name, with at '
        "most one *"
    )


def checked_user(value: str) -> str:
    """Returns *value* if it is a user, which may contain PLACE.

    Raises:
        ValueError: *value* is not a user.
    """
    if value and len(value) <= 64 and _USER.fullmatch(value):
        return value
    raise ValueError(
        f"{shown(value)} is not a user: use 1 to 64 of A-Z a-z 0-9 . _ - and at most one {PLACE}"
    )


class CertificateRule(Section):
    """[[auth.certificates]]"""

    match: Annotated[str, AfterValidator(_checked_match)]
    """The whole subject or alternative name of a certificate, with at most one *."""

    user: Annotated[str, AfterValidator(checked_user)]
    """The user as which a client with this certificate logs in; {1} is the text that * matched."""

    @model_validator(mode="after")
    def _place_has_a_star(self) -> "CertificateRule":
        if PLACE in self.user and "*" not in self.match:
            raise ValueError(f"{shown(self.user)} uses {PLACE}, but match has no *")
        return self
