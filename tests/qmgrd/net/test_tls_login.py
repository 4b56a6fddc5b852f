"""Logins over TLS to a whole daemon."""

from pathlib import Path

import pytest

from qmgr_client import ConnectionEnded, RequestError
from qmgr_client.aio import connect
from qmgr_protocol import scram
from tests.certificates import Certificates
from tests.qmgrd.test_daemon import running

LISTEN = {"tcp": ["127.0.0.1:0"], "tls": ["127.0.0.1:0"], "unix": "off"}
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


async def test_password_over_tls_is_bound_to_the_certificate_of_the_daemon(
    tmp_path: Path, files: Certificates
) -> None:
    """The rules accept no login that is not bound."""
    rules = [{"tls": "required", "method": scram.PLUS_METHOD}, {"method": "open"}]
    async with running(
        tmp_path, listen=LISTEN, tls=files.section(), auth={"access": rules}
    ) as here:
        plain, secure = here.daemon.addresses
        async with connect(plain) as owner:
            await owner.admin.user_create("app", PASSWORD, roles=["administrator"])
        options = files.options()
        async with connect(secure, tls=options, user="app", password=PASSWORD) as client:
            assert (await client.admin.user_show("app"))["enabled"] is True


async def test_client_logs_in_by_the_certificate_that_it_shows(
    tmp_path: Path, files: Certificates
) -> None:
    files.issue("robot", "robot.clients.example.org")
    entries = [{"match": "dns:*.clients.example.org", "user": "{1}"}]
    async with running(
        tmp_path,
        listen=LISTEN,
        tls=files.section(client_ca=files.ca),
        auth={"certificates": entries},
    ) as here:
        plain, secure = here.daemon.addresses
        async with connect(plain) as owner:
            await owner.admin.user_create("admin", PASSWORD, roles=["administrator"])
            async with connect(plain, user="admin", password=PASSWORD) as admin:
                await admin.admin.user_create("robot", roles=["monitor"])
                async with connect(secure, tls=files.options("robot")) as client:
                    assert (await client.admin.status())["name"] == "QM1"
                    with pytest.raises(RequestError, match="user robot"):
                        await client.admin.queue_create("Q")
                with pytest.raises(ConnectionEnded, match="does not belong to a user"):
                    await connect(secure, tls=files.options("server")).open()
