"""The logins of links."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from qmgr_config.link import LoginConfig


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "LON", "password_file": Path("/p")},
        {"use_certificate": True},
        {"fingerprint": "AB:" * 31 + "AB"},
        {"server_name": "nyc.example.org"},
    ],
)
def test_each_way_to_log_in_is_accepted(fields: dict[str, Any]) -> None:
    assert LoginConfig(manager="NYC", **fields).manager == "NYC"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"user": "LON"}, "user and password_file belong together"),
        ({"password_file": Path("/p")}, "user and password_file belong together"),
        (
            {"user": "LON", "password_file": Path("/p"), "use_certificate": True},
            "a user with a password, token_file, or use_certificate",
        ),
        ({"fingerprint": "ab"}, "is not the SHA-256 of a certificate"),
    ],
)
def test_contradiction_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        LoginConfig(manager="NYC", **fields)
