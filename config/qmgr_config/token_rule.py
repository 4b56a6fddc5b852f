"""The issuers of tokens, and the users of tokens: [[auth.tokens]]."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from qmgr_config.certificate_rule import MATCH_MAX, PLACE, checked_user
from qmgr_config.quantity import in_ms
from qmgr_config.section import Section
from qmgr_config.tls import File
from qmgr_config.units import shown

TOKENS_MAX = 100  # entries of auth.tokens
TOKEN_USERS_MAX = 1_000  # entries of users in one of them
AUDIENCES_MAX = 100
_TEXT_MAX = 1_000
_MATCH = re.compile(r"[^*\x00-\x1f]*\*?[^*\x00-\x1f]*")


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _checked_match(value: str) -> str:
    if value and len(value) <= MATCH_MAX and _MATCH.fullmatch(value):
        return value
    raise ValueError(
        f"{shown(value)} is not a text of 1 to {MATCH_MAX} characters with at most one *"
    )


_Text = Annotated[str, Field(min_length=1, max_length=_TEXT_MAX)]


class TokenUser(Section):
    """An entry of users in [[auth.tokens]]"""

    claim: _Text
    """The name of a claim, or its path, such as realm_access.roles."""

    match: Annotated[str, AfterValidator(_checked_match)]
    """The whole value of the claim, or of one element of its list, with at most one *."""

    user: Annotated[str, AfterValidator(checked_user)]
    """The user as which a client with such a token logs in; {1} is the text that * matched."""

    @model_validator(mode="after")
    def _place_has_a_star(self) -> "TokenUser":
        if PLACE in self.user and "*" not in self.match:
            raise ValueError(f"{shown(self.user)} uses {PLACE}, but match has no *")
        return self


class TokenRule(Section):
    """[[auth.tokens]]"""

    issuer: _Text
    """The issuer of the tokens, exactly as in their claim iss."""

    audience: Annotated[tuple[_Text, ...], BeforeValidator(_listed)] = Field(
        min_length=1, max_length=AUDIENCES_MAX
    )
    """The names of this queue manager at the issuer. The claim aud of a token must have one."""

    keys_file: Annotated[File, Field(min_length=1)]
    """The file of the issuer's public keys: PEM, or a JWKS (JSON). It is read when it changes."""

    clock_skew_ms: Annotated[int, in_ms(0, "5 min")] = 30_000
    """The maximum difference between the clocks of the issuer and of this machine, in ms."""

    lifetime_max_ms: Annotated[int, in_ms("1 s", "366 d")] = 86_400_000
    """The maximum lifetime of a token, in ms. A token that is valid for longer is refused."""

    users: tuple[TokenUser, ...] = Field(min_length=1, max_length=TOKEN_USERS_MAX)
    """The users of tokens. The first entry that fits a token decides."""
