"""The ordered rules that decide how a connection may log in ([[auth.access]]).

    connection ─▶ first rule whose from, user and tls fit ─▶ its methods, or a refusal
                  no rule fits                            ─▶ a refusal

Only the first rule that fits counts, as in pg_hba.conf of PostgreSQL: if its methods do not include
the one of the client, no later rule is tried. Two limits cannot be changed by a rule:

* Root and the user of the daemon may always log in over the unix socket, without a user. Otherwise
  a wrong rule could lock out everybody.
* A token is accepted only over TLS, the unix socket or loopback: anybody who reads it can use it.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple, TypeAlias

from qmgr_config.access_rule import ANY, DEFAULT_RULES, LOOPBACK, UNIX, AccessRule
from qmgrd.core.access.origin import Origin
from qmgrd.core.catalogue.templates import fits

OPEN, TOKEN, REFUSE = "open", "token", "refuse"
SCRAM, SCRAM_PLUS = "scram-sha-256", "scram-sha-256-plus"
CERTIFICATE = "certificate"
METHODS = (SCRAM, SCRAM_PLUS, CERTIFICATE, TOKEN, OPEN)
_STRICTNESS = {"any": 0, "required": 1, "certificate": 2}

Network: TypeAlias = IPv4Network | IPv6Network


class Rule(NamedTuple):
    """A rule. An empty *user* stands for a connection without a user, which only * fits."""

    number: int  # position in the list, from 1
    sources: tuple[str, ...]
    networks: tuple[Network, ...]  # those of sources that are networks
    users: tuple[str, ...]
    tls: str
    methods: tuple[str, ...]

    def fits_origin(self, origin: Origin) -> bool:
        """Returns whether a connection from *origin* may fit, given the right user."""
        strictness = _STRICTNESS[self.tls]
        if strictness and origin.tls is None:
            return False
        if strictness == 2 and not (origin.tls and origin.tls.has_certificate):
            return False
        if ANY in self.sources:
            return True
        if origin.address == UNIX:
            return UNIX in self.sources
        if LOOPBACK in self.sources and origin.is_trusted:
            return True
        return bool(self.networks) and _is_inside(origin.address, self.networks)

    def fits_user(self, user: str) -> bool:
        """Returns whether *user* is one of the users of the rule."""
        return any(fits(pattern, user) for pattern in self.users)

    def allows(self, method: str) -> bool:
        """Returns whether the rule allows *method*. A method also allows its bound form."""
        return method in self.methods or (method == SCRAM_PLUS and SCRAM in self.methods)

    def covers(self, other: "Rule") -> bool:
        """Returns whether each connection that fits *other* fits this rule as well."""
        return (
            _STRICTNESS[self.tls] <= _STRICTNESS[other.tls]
            and all(self._covers_source(source) for source in other.sources)
            and all(any(fits(mine, user) for mine in self.users) for user in other.users)
        )

    def _covers_source(self, source: str) -> bool:
        if ANY in self.sources or source in self.sources:
            return True
        if source in (ANY, UNIX, LOOPBACK):
            return False
        inner = ip_network(source)
        if LOOPBACK in self.sources and inner.is_loopback:
            return True
        return any(
            inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]
            for outer in self.networks
        )

    def describe(self) -> dict[str, Any]:
        """Returns the rule for operators."""
        return {
            "rule": self.number,
            "from": list(self.sources),
            "users": list(self.users),
            "tls": self.tls,
            "methods": list(self.methods),
        }


class Verdict(NamedTuple):
    """The decision about a login, with its reason for operators."""

    is_allowed: bool
    rule: Rule | None  # rule that decided, or None if no rule fits
    why: str


class Rules:
    """The rules in force, in their order."""

    def __init__(self, configured: Sequence[AccessRule]) -> None:
        """Uses the *configured* rules, or the default rules if there are none."""
        self.is_default = not configured
        self.rules = tuple(
            Rule(
                number,
                one.sources,
                tuple(ip_network(x) for x in one.sources if x not in (ANY, UNIX, LOOPBACK)),
                one.user,
                one.tls,
                one.method,
            )
            for number, one in enumerate(configured or DEFAULT_RULES, 1)
        )

    def unreachable(self) -> Iterator[tuple[Rule, Rule]]:
        """Yields each rule that no connection reaches, with the earlier rule that covers it."""
        for at, rule in enumerate(self.rules):
            earlier = next((x for x in self.rules[:at] if x.covers(rule)), None)
            if earlier is not None:
                yield rule, earlier

    def verdict(self, origin: Origin, user: str, method: str) -> Verdict:
        """Returns whether *user* at *origin* may log in by *method*, and why.

        The user and the proof are not checked here. Without a user, *user* is empty.
        """
        if method == TOKEN and not (origin.tls or origin.is_trusted):
            return Verdict(False, None, "a token needs TLS on this address")
        for rule in self.rules:
            if rule.fits_origin(origin) and rule.fits_user(user):
                if rule.allows(method):
                    return Verdict(True, rule, f"rule {rule.number} allows {method}")
                if rule.methods == (REFUSE,):
                    return Verdict(False, rule, f"rule {rule.number} refuses this login")
                allowed = ", ".join(rule.methods)
                return Verdict(
                    False, rule, f"rule {rule.number} allows {allowed}, but not {method}"
                )
        return Verdict(False, None, "no rule fits")

    def may_use(self, origin: Origin, method: str) -> bool:
        """Returns whether any user at *origin* may log in by *method*."""
        if method == TOKEN and not (origin.tls or origin.is_trusted):
            return False
        return any(rule.allows(method) and rule.fits_origin(origin) for rule in self.rules)


def _is_inside(address: str, networks: Sequence[Network]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped  # a listener for both versions reports IPv4 addresses so
    return any(found.version == network.version and found in network for network in networks)
