"""The welcome of the daemon."""

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.catalogue.boot import Boot
from qmgrd.net.welcome import SOFTWARE, welcome_of

BOOT = Boot(b"s" * 16, 7, 0, 0, 0, 0, 0, False, b"salt", b"secret")


def test_welcome_names_the_queue_manager_and_its_limits() -> None:
    config = Config.model_validate(
        {"queue_manager": {"name": "NYC"}, "limits": {"request_window": 5}}
    )
    welcome = welcome_of(config, BOOT)
    assert welcome[:4] == (m.VERSION, "NYC", b"s" * 16, 7)
    assert welcome.software == SOFTWARE
    for name in m.Welcome._fields:
        if hasattr(config.limits, name):
            assert getattr(welcome, name) == getattr(config.limits, name), name
    assert welcome.request_window == 5


def test_welcome_has_no_session_and_no_secret() -> None:
    welcome = welcome_of(Config(), BOOT)
    assert welcome.session == m.Welcome._field_defaults["session"]
    assert welcome.auth_data == b""
    assert not {b"salt", b"secret"} & {x for x in welcome if isinstance(x, bytes)}
