"""The options of links to other queue managers."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ValidationInfo, field_validator, model_validator

from qmgr_config.check import checked_name, checked_name_or_nothing
from qmgr_config.quantity import count, in_bytes, in_ms
from qmgr_config.section import Section
from qmgr_config.tls import checked_fingerprint
from qmgr_config.units import MIB, SECOND_MS, ms_text


class LoginConfig(Section):
    """[[link.logins]]"""

    manager: Annotated[str, AfterValidator(checked_name)]
    """The name of the other queue manager, which is also the name of the link."""

    user: Annotated[str, AfterValidator(checked_name_or_nothing)] = ""
    """The user as which this queue manager logs in at the other one, with a password."""

    password_file: Path | None = None
    """A file with the password of that user. The daemon reads it at each connection."""

    token_file: Path | None = None
    """A file with a token (JWT), as an alternative. The daemon reads it again at each renewal."""

    use_certificate: bool = False
    """Whether this queue manager logs in with its certificate (tls.certificate)."""

    server_name: str = ""
    """The name that the other one's certificate must have. "" means the host of the address."""

    fingerprint: Annotated[str, AfterValidator(checked_fingerprint)] = ""
    """The SHA-256 of the other one's certificate. It replaces the check of CA and name."""

    @model_validator(mode="after")
    def _there_is_one_way_to_log_in(self) -> "LoginConfig":
        if bool(self.user) != (self.password_file is not None):
            raise ValueError("user and password_file belong together")
        ways = bool(self.user), self.token_file is not None, self.use_certificate
        if sum(ways) > 1:
            raise ValueError("give a user with a password, token_file, or use_certificate")
        return self


class LinkConfig(Section):
    """[link]"""

    logins: tuple[LoginConfig, ...] = ()
    """The logins of links at other queue managers."""

    require_login: bool = False
    """Whether links only dial queue managers for which a login is configured."""

    inbound: Literal["defined", "any"] = "defined"
    """Whether only queue managers defined with "qmctl link allow" may open links to this one."""

    peers_max: Annotated[int, count(1, 10_000)] = 1_000
    """The maximum number of queue managers that may open links to this one."""

    window_messages: Annotated[int, count(1, 10_000)] = 4096
    """The maximum number of messages in flight on a link."""

    window_bytes: Annotated[int, in_bytes("1 KiB", "1 GiB")] = 8 * MIB
    """The same limit in bytes."""

    commit_messages: Annotated[int, count(1, 1_000_000)] = 500
    """The maximum number of messages received before a commit id is sent."""

    commit_bytes: Annotated[int, in_bytes("1 KiB", "1 GiB")] = MIB
    """The same limit in bytes."""

    commit_interval_ms: Annotated[int, in_ms(0, "1 min")] = 50
    """The maximum wait before a commit id is sent, in ms. 0 sends a commit id every turn."""

    redial_min_ms: Annotated[int, in_ms("1 ms", "1 h")] = 100
    """The wait before a lost link is dialled again, in ms. Each failure doubles the wait."""

    redial_max_ms: Annotated[int, in_ms("1 ms", "1 d")] = 30 * SECOND_MS
    """The maximum wait before a lost link is dialled again, in ms, at least redial_min_ms."""

    stall_ms: Annotated[int, in_ms("100 ms", "1 h")] = 10 * SECOND_MS
    """The maximum time until sent messages are committed, in ms. After it, the link reconnects."""

    deliver_retries: Annotated[int, count(0, 1_000_000)] = 0
    """The number of times that a receiver requests a message it cannot store. 0 is unlimited."""

    @field_validator("redial_max_ms")
    @classmethod
    def _redial_waits_are_in_order(cls, redial_max_ms: int, info: ValidationInfo) -> int:
        redial_min_ms = info.data.get("redial_min_ms")
        if redial_min_ms is not None and redial_max_ms < redial_min_ms:
            raise ValueError(
                f"{ms_text(redial_max_ms)} is below link.redial_min_ms ({ms_text(redial_min_ms)})"
            )
        return redial_max_ms
