"""The memory for the puts of open units of work, which all users share.

A user can hold at most as much as it leaves free. One user can therefore hold half of the memory,
and a second user a quarter, so a user that takes all it can never stops the others.
"""

from qmgr_config.model import UnitConfig
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.access.access import Access
from qmgrd.core.sessions.session import Session


class UnitMemory:
    """The memory in use.

    Invariant: ``_bytes_of`` has the users, and the connections without a user, whose units hold
        puts. ``_bytes`` is the sum of its values.
    """

    def __init__(self, limits: UnitConfig) -> None:
        self._limits = limits
        self._bytes = 0
        self._bytes_of: dict[Access | int, int] = {}

    def count(self, session: Session, more_bytes: int) -> None:
        """Counts *more_bytes* that the units of *session* hold. They are negative if it frees
        memory.
        """
        holder = _holder(session)
        held_bytes = self._bytes_of.pop(holder, 0) + more_bytes
        if held_bytes:
            self._bytes_of[holder] = held_bytes
        self._bytes += more_bytes

    def check(self, session: Session, more_bytes: int) -> None:
        """Checks that the units of *session* may use *more_bytes*.

        Raises:
            RequestError: UNITS_EXHAUSTED if the connection would use too much memory, or its user
                more than would stay free.
        """
        limits = self._limits
        for held, most, whose, remedy in (
            (
                session.unit_bytes + more_bytes,
                limits.connection_bytes_max,
                "this connection",
                "commit some, or raise unit.connection_bytes_max",
            ),
            (
                self._bytes_of.get(_holder(session), 0) + more_bytes,
                limits.held_bytes_max - self._bytes - more_bytes,
                "this user",
                "a user must leave as much free as it uses; commit some, retry later, or raise "
                "unit.held_bytes_max",
            ),
        ):
            if held > most:
                raise RequestError(
                    ErrorCode.UNITS_EXHAUSTED,
                    f"the units of work of {whose} would use {held} bytes (the limit is "
                    f"{max(most, 0)}): {remedy}",
                    1_000,
                )


def _holder(session: Session) -> Access | int:
    """Returns whose memory the units of *session* use: its user, or itself without a user."""
    return session.connection if session.access is None else session.access
