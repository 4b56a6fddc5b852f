"""Handles administrators' requests about the rules for logins."""

from ipaddress import ip_address

from qmgr_config.access_rule import UNIX
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.access.origin import Origin, Tls
from qmgrd.core.access.rule import METHODS, Rules
from qmgrd.core.context.context import Context
from qmgrd.core.sessions.session import Session

_TLS = {"none": None, "required": Tls(), "certificate": Tls(fingerprint="any")}


class LoginAdmin:
    """Handles requests about the rules for logins. Holds no state."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rules = Rules(context.config.auth.access)

    def access_rules(self, session: Session, message: m.AccessRules) -> None:
        """Lists the rules in force, in their order."""
        covered = {rule.number: by.number for rule, by in self._rules.unreachable()}
        rows = [
            rule.describe() | {"covered_by": covered.get(rule.number, 0)}
            for rule in self._rules.rules
        ]
        self._context.count_read(len(rows), 0)
        value = {"rules": rows, "default": self._rules.is_default}
        self._context.reply(session.connection, message.request_id, value)

    def access_test(self, session: Session, message: m.AccessTest) -> None:
        """Finds the rule that decides about a login.

        Raises:
            RequestError: VALUE_INVALID if the address, the method or tls is invalid.
        """
        if message.method not in METHODS:
            raise _invalid(f"{message.method[:80]!r} is not a method", ", ".join(METHODS))
        if message.tls not in _TLS:
            raise _invalid(f"tls is {message.tls[:80]!r}", ", ".join(_TLS))
        origin = _origin(message.address)._replace(tls=_TLS[message.tls])
        found = self._rules.verdict(origin, message.user, message.method)
        value = {
            "allowed": found.is_allowed,
            "rule": 0 if found.rule is None else found.rule.number,
            "why": found.why,
        }
        self._context.reply(session.connection, message.request_id, value)


def _origin(address: str) -> Origin:
    if address == UNIX:
        return Origin(address)
    try:
        found = ip_address(address)
    except ValueError:
        raise _invalid(f"{address[:80]!r} is not an address", "unix, 10.0.0.1, ::1") from None
    return Origin(address, is_trusted=found.is_loopback)


def _invalid(why: str, valid: str) -> RequestError:
    return RequestError(ErrorCode.VALUE_INVALID, f"{why}; use one of {valid}")
