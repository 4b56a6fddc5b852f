"""Tests of the findings about a link that is stopped or cannot connect."""

import ssl
from typing import Any

import pytest

from qmgr_protocol import tls
from qmgr_tools.link.doctor import down as link_down
from qmgr_tools.link.doctor.finding import Severity

ROW: dict[str, Any] = {
    "link": "NYC",
    "state": "waiting",
    "addresses": ["nyc:1", "nyc:2"],
    "error": "nyc:1: no route",
    "waiting": 3,
    "waiting_bytes": 2048,
    "attempts": 5,
    "down_ms": 90_000,
    "redial_ms": 4000,
    "paths": [],
}


def test_stopped_link_is_told_of_where_messages_wait() -> None:
    found = link_down.stopped(ROW)
    assert found is not None
    assert (found.code, found.severity) == ("stopped", Severity.WARNING)
    assert found.remedy == "qmctl link start NYC"
    assert "down for 1 min 30 s; it holds 3 messages (2 KiB)" in found.what
    assert link_down.stopped(ROW | {"waiting": 0}) is None


def test_dialling_link_is_told_with_since_when_and_why() -> None:
    found = link_down.down(ROW)
    assert found.what == (
        "down for 1 min 30 s; nyc:1: no route; 5 consecutive connection attempts "
        "failed; connects again in 4 s; it holds 3 messages, stored safely"
    )
    assert (found.code, found.remedy) == ("down", "qmctl -c nyc:1 status")
    assert "at nyc:1, nyc:2" in found.why


def test_link_that_maintenance_does_not_dial_is_told_so() -> None:
    found = link_down.down(ROW | {"error": "in maintenance: the daemon dials no link; restart it"})
    assert found.what == (
        "not connected because of maintenance; down for 1 min 30 s; it holds 3 "
        "messages, stored safely"
    )
    assert [choice.command for choice in found.choices] == ["", "qmctl link start NYC"]


@pytest.mark.parametrize(
    ("waiting", "down_ms", "severity"),
    [(1, 10_000, "critical"), (1, 9_999, "warning"), (0, 3_600_000, "warning")],
)
def test_link_is_critical_where_messages_wait_for_long(
    waiting: int, down_ms: int, severity: str
) -> None:
    found = link_down.down(ROW | {"waiting": waiting, "down_ms": down_ms})
    assert found.severity.word == severity


@pytest.mark.parametrize("error", ["", "the link has no address: NYC must dial, and fetch"])
def test_link_without_an_address_waits_to_be_dialled(error: str) -> None:
    found = link_down.down(ROW | {"addresses": [], "error": error})
    assert found.what.startswith("NYC has not connected; this link has no address; down for 1 min")
    assert (found.code, found.remedy) == ("down", "")


def test_peer_that_dialled_and_left_is_told_with_its_reason() -> None:
    error = "the peer left: link QM1 was stopped"
    found = link_down.down(ROW | {"addresses": [], "error": error})
    assert found.what.startswith(f"NYC lost its connection: {error}; this link has no address; ")
    look, address = found.choices
    assert (look.command, "run qmctl link doctor at" in look.effect) == ("", True)
    assert address.command == "qmctl link alter NYC HOST:PORT"


def test_error_of_a_path_stands_for_that_of_the_link() -> None:
    row = ROW | {"error": "", "paths": [{"error": ""}, {"error": "no answer"}], "redial_ms": None}
    assert "s; no answer; 5" in link_down.down(row).what
    assert link_down.down(row | {"attempts": 1, "paths": [], "waiting": 0}).what == (
        "down for 1 min 30 s; it holds no messages"
    )


@pytest.mark.parametrize(
    ("error", "says", "remedy"),
    [
        ("nyc:2: Connection refused", "at nyc:2. It does not run", "qmctl -c nyc:1 status"),
        (
            "nyc:1: received nothing for 30057 ms; the limit is 30000 ms; is it a qmgrd?",
            "at nyc:1 accepts the connection, but does not",
            "qmctl -c nyc:1 status",
        ),
        (
            "nyc:1: frame of 1397966893 bytes exceeds the limit of 65536 bytes; is it a qmgrd?",
            "It hangs or is another",
            "qmctl -c nyc:1 status",
        ),
        (
            "nyc:1: received nothing for 30909 ms; the limit is 30000 ms",
            "NYC stopped sending. It hangs, or",
            "qmctl -c nyc:1 status",
        ),
        (
            "nyc:1: Name or service not known",
            "The host name in nyc:1 cannot be resolved.",
            "qmctl link alter NYC HOST:PORT",
        ),
        (
            "nyc:1: Temporary failure in name resolution",
            "or the name service does not answer",
            "qmctl link alter NYC HOST:PORT",
        ),
        (
            "nyc:1: no answer within 10 s",
            "at nyc:1, nyc:2. It does not run",
            "qmctl -c nyc:1 status",
        ),
        (
            "nyc:1: frame of 352518912 bytes exceeds the limit of 65536 bytes; is it a qmgrd?",
            "or accepts only TLS (tls:HOST:PORT).",
            "qmctl -c nyc:1 status",
        ),
        ("tls:nyc:1: Connection refused", "It does not run", "qmctl -c nyc:1 status"),
        ("the peer left: so", "at nyc:1, nyc:2. ", "qmctl -c nyc:1 status"),
    ],
)
def test_why_is_by_the_error_of_the_dial(error: str, says: str, remedy: str) -> None:
    found = link_down.down(ROW | {"error": error})
    assert says in found.why
    assert found.remedy == remedy


def unreadable(path: str) -> Exception:
    with pytest.raises(tls.TlsFailed) as caught:
        tls.TlsOptions(ca_file=path).context()
    return caught.value


def unverified(code: int) -> Exception:
    error = ssl.SSLCertVerificationError("refused")
    error.verify_code, error.verify_message = code, "words of OpenSSL"
    return error


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (unverified(19), "set tls.ca in the configuration"),
        (unverified(10), "correct TLS where the error says"),
        (unreadable("/nowhere"), "correct TLS where the error says"),
    ],
    ids=str,
)
def test_error_of_tls_is_the_cause(error: Exception, advice: str) -> None:
    row = ROW | {"addresses": ["tls:nyc:1"]}
    found = link_down.down(row | {"error": f"tls:nyc:1: {tls.explained(error)}"})
    assert found.why.startswith("TLS with tls:nyc:1 fails, ")
    assert [choice.command for choice in found.choices] == [""]
    assert advice in found.choices[0].effect


def test_each_reason_of_tls_is_known_as_one() -> None:
    for reason in tls._REASONS.values():
        assert link_down._is_tls(f"tls:nyc:1: {reason}"), reason


@pytest.mark.parametrize(("down_ms", "is_mute"), [(10_000, True), (9_999, False)])
def test_first_dial_that_lasts_has_a_connection_and_no_answer(
    down_ms: int, *, is_mute: bool
) -> None:
    row = ROW | {"state": "dialling", "error": "", "down_ms": down_ms}
    assert ("It hangs or is another" in link_down.down(row).why) is is_mute
