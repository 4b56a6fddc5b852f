"""The rules that decide how a connection may log in: [[auth.access]]."""

import re
from ipaddress import ip_network
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator

from qmgr_config.section import Section
from qmgr_config.units import shown

RULES_MAX = 1_000
ENTRIES_MAX = 100  # entries of a list in a rule
UNIX, LOOPBACK, ANY = "unix", "loopback", "any"
_USER = re.compile(r"[A-Za-z0-9._*-]{1,64}")

Encryption: TypeAlias = Literal["any", "required", "certificate"]
Method: TypeAlias = Literal[
    "scram-sha-256", "scram-sha-256-plus", "certificate", "token", "open", "refuse"
]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class AccessRule(Section):
    """[[auth.access]]"""

    sources: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        (ANY,), alias="from", min_length=1, max_length=ENTRIES_MAX
    )
    """The origins of connections: "unix", "loopback", networks such as 10.0.0.0/8, or "any"."""

    user: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        ("*",), min_length=1, max_length=ENTRIES_MAX
    )
    """The users of the rule: names, with * for any characters."""

    tls: Encryption = "any"
    """Whether the rule needs TLS ("required"), or a verified certificate of the client as well."""

    method: Annotated[tuple[Method, ...], BeforeValidator(_listed)] = Field(
        min_length=1, max_length=ENTRIES_MAX
    )
    """The methods by which the users may log in, or "refuse" alone."""

    @field_validator("sources")
    @classmethod
    def _sources_are_valid(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        for source in sources:
            if source in (UNIX, LOOPBACK, ANY):
                continue
            try:
                ip_network(source)
            except ValueError as error:
                why = f" ({error})" if "host bits" in str(error) else ""
                raise ValueError(
                    f'{shown(source)} is not "unix", "loopback", "any", an address or a network '
                    f"such as 10.0.0.0/8{why}"
                ) from None
        return sources

    @field_validator("user")
    @classmethod
    def _users_are_valid(cls, users: tuple[str, ...]) -> tuple[str, ...]:
        for user in users:
            if not _USER.fullmatch(user):
                raise ValueError(
                    f"{shown(user)} is not a pattern of users: use 1 to 64 of A-Z a-z 0-9 . _ - "
                    "and * for any characters"
                )
        return users

    @field_validator("method")
    @classmethod
    def _refusal_is_alone(cls, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        if "refuse" in methods and len(methods) > 1:
            raise ValueError('"refuse" excludes all other methods: give it alone')
        return methods


DEFAULT_RULES = (
    AccessRule.model_validate(
        {
            "from": [UNIX, LOOPBACK],
            "method": ["scram-sha-256", "scram-sha-256-plus", "certificate", "token", "open"],
        }
    ),
    AccessRule.model_validate(
        {
            "tls": "required",
            "method": ["scram-sha-256", "scram-sha-256-plus", "certificate", "token"],
        }
    ),
)
