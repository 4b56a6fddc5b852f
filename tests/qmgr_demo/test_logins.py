"""Tests of the logins that are read from the logs of daemons."""

import json
from pathlib import Path

from qmgr_demo.logins import CLIENT, LINK, recorded


def entry(**facts: object) -> str:
    return json.dumps({"event": "audit", "action": "Login", "result": "OK", "count": 1} | facts)


def test_logins_are_counted_by_method_and_refusals_by_user(tmp_path: Path) -> None:
    first, second = tmp_path / "NYC.log", tmp_path / "EWR.log"
    lines = [
        entry(method=LINK, user="EWR"),
        entry(method=LINK, user="EWR", count=11),
        entry(method=CLIENT, user="arrivals"),
        entry(method=CLIENT, user="arrivals", action="Logout"),
        entry(method=CLIENT, user="arrivals", action="Put", result="NOT_AUTHORIZED"),
        entry(method=CLIENT, user="arrivals", action="Settle", result="LEASE_LOST"),
        json.dumps({"event": 'cannot read "audit"'}),
    ]
    first.write_text("\n".join(lines[:4]))
    second.write_text("\n".join([*lines[4:7], entry(method="open"), entry(result="LOGIN_FAILED")]))
    logins = recorded([first, second])
    assert logins.accepted == {LINK: 12, CLIENT: 1, "open": 1}
    assert logins.denied == {"arrivals": 1}
    assert (logins.refused, logins.otherwise) == (1, 1)
