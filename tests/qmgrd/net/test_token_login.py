"""Tokens at whole daemons: logins, renewals, the end of connections, links, and changed keys."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from qmgr_client import ConnectFailed, ConnectionEnded
from qmgr_client.aio import connect
from qmgr_protocol import token_login
from qmgr_protocol.errors import ErrorCode
from qmgrd import daemon as daemons
from qmgrd.core.peer import Peer
from qmgrd.net import token_keys
from tests.certificates import Certificates
from tests.qmgrd.test_daemon import Running, running
from tests.tokens import claims, entry, pem, private_key, signed

LISTEN = {"tcp": ["127.0.0.1:0"], "tls": ["127.0.0.1:0"], "unix": "off"}
FAST = {"heartbeat_ms": 200, "liveness_ms": 5_000}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes both ends look at tokens often."""
    monkeypatch.setattr(daemons, "LOOK_S", 0.02)
    monkeypatch.setattr(token_keys, "REFRESH_S", 0.02)
    monkeypatch.setattr(token_login, "RETRY_MIN_MS", 50)


def token(valid_s: float = 600, **others: Any) -> bytes:
    """Returns a token that is valid for *valid_s* from now."""
    now_s = time.time()
    return signed(claims(**{"iat": now_s, "exp": now_s + valid_s} | others))


def write(path: Path, data: bytes) -> str:
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.chmod(0o600)
    os.replace(new, path)
    return str(path)


def auth(directory: Path, **others: Any) -> dict[str, Any]:
    directory.mkdir(exist_ok=True)
    keys = write(directory / "issuer.pem", pem(private_key("p256")))
    return {"tokens": [entry(keys, clock_skew_ms=0, **others)]}


async def with_users(here: Running, *users: str) -> str:
    """Creates an administrator and *users*. Returns the address without TLS."""
    address = here.daemon.addresses[0]
    async with connect(address) as owner:
        await owner.admin.user_create("root", "secret", roles=["administrator"])
    async with connect(address, user="root", password="secret") as owner:
        for user in users:
            await owner.admin.user_create(user, roles=["administrator"])
    return address


def peers_of(here: Running, user: str) -> list[Peer]:
    """Returns the open connections of *user*."""
    peers = [session.peer for session in here.daemon._sessions.values()]
    return [peer for peer in peers if peer._user == user]


async def test_client_logs_in_by_token_over_tls_and_loopback(
    tmp_path: Path, certificates: Certificates
) -> None:
    async with running(
        tmp_path, listen=LISTEN, tls=certificates.section(), auth=auth(tmp_path)
    ) as here:
        plain = await with_users(here, "app")
        secure = here.daemon.addresses[1]
        file = write(tmp_path / "app.token", token() + b"\n")
        options = certificates.options()
        async with connect(secure, tls=options, token_file=file) as client:
            assert (await client.admin.user_show("app"))["enabled"] is True
        async with connect(plain, token=token().decode()) as client:
            assert (await client.admin.status())["name"] == "QM1"
        for wrong in (token(aud="other"), token(sub="nobody"), b"a.b.c"):
            with pytest.raises(ConnectionEnded, match="token is not valid") as caught:
                await connect(plain, token=wrong.decode()).open()
            assert caught.value.code == ErrorCode.LOGIN_FAILED


@pytest.mark.usefixtures("quick")
async def test_connection_ends_with_its_token_and_continues_with_a_new_one(tmp_path: Path) -> None:
    """The client waits for the new token, and reads its file at each attempt."""
    async with running(tmp_path, listen=LISTEN | {"tls": []}, auth=auth(tmp_path)) as here:
        plain = await with_users(here, "app")
        file = write(tmp_path / "app.token", token(0.3))
        async with connect(plain, token_file=file) as client:
            await client.admin.queue_create("Q")
            await client.put("Q", b"before")
            while peers_of(here, "app"):
                await asyncio.sleep(0.02)
            put = asyncio.create_task(client.put("Q", b"after"))
            await asyncio.sleep(0.2)
            assert not put.done()
            write(tmp_path / "app.token", token())
            await put


@pytest.mark.usefixtures("quick")
async def test_client_with_a_fixed_token_ends_with_it(tmp_path: Path) -> None:
    async with running(tmp_path, listen=LISTEN | {"tls": []}, auth=auth(tmp_path)) as here:
        plain = await with_users(here, "app")
        async with connect(plain, token=token(0.3).decode()) as client:
            await client.admin.queue_create("Q")
            with pytest.raises(ConnectionEnded, match="token of this connection has expired"):
                await client.get("Q", wait_ms=20_000)
        with pytest.raises(ConnectionEnded, match="the token has expired"):
            await connect(plain, token=token(-1, iat=time.time() - 9).decode()).open()
        file = write(tmp_path / "old.token", token(-1, iat=time.time() - 9))
        with pytest.raises(ConnectFailed, match="the token has expired"):
            await connect(plain, token_file=file).open()


@pytest.mark.usefixtures("quick")
async def test_client_renews_its_token_by_the_file(tmp_path: Path) -> None:
    """The connection lives longer than its tokens. A refused renewal is repeated."""
    listen = LISTEN | {"tls": []}
    async with running(tmp_path, listen=listen, limits=FAST, auth=auth(tmp_path)) as here:
        plain = await with_users(here, "app", "other")
        file = tmp_path / "app.token"
        async with connect(plain, token_file=write(file, token(2)), reconnect=False) as client:
            (peer,) = peers_of(here, "app")
            write(file, token(sub="other"))
            while not peer.refusal:
                await asyncio.sleep(0.01)
            assert "leads to the user other" in peer.refusal
            write(file, token())
            while peer.refusal:
                await asyncio.sleep(0.01)
            assert peers_of(here, "app") == [peer]
            async with connect(plain, token=token(sub="other").decode()):
                checked = [session.peer._user for session in here.daemon._admission.with_token]
                assert sorted(checked) == ["app", "other"], "only connections with a token"
            peer.renewal.check(here.daemon.now_ms() + 500_000)
            assert (await client.admin.status())["name"] == "QM1"


@pytest.mark.usefixtures("quick")
async def test_changed_keys_are_read_without_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, listen=LISTEN | {"tls": []}, auth=auth(tmp_path)) as here:
        plain = await with_users(here, "app")
        now_s = time.time()
        new = private_key("p256", 1)
        found = signed(claims(iat=now_s, exp=now_s + 600), new).decode()
        with pytest.raises(ConnectionEnded, match="not valid"):
            await connect(plain, token=found).open()
        write(tmp_path / "issuer.pem", pem(private_key("p256"), new))
        while True:
            try:
                async with connect(plain, token=found) as client:
                    assert (await client.admin.status())["name"] == "QM1"
                break
            except ConnectionEnded:
                await asyncio.sleep(0.02)


@pytest.mark.usefixtures("quick")
async def test_link_logs_in_by_token_and_renews_it(
    tmp_path: Path, certificates: Certificates
) -> None:
    """The connection of the link lives longer than its token, and no message is in doubt."""
    links = {
        "logins": [{"manager": "QM1", "token_file": str(tmp_path / "ewr.token")}],
        "require_login": True,
        "redial_min_ms": 10,
    }
    nyc_tls = certificates.section()
    write(tmp_path / "ewr.token", token(2, sub="EWR"))
    async with running(
        tmp_path / "nyc", listen=LISTEN, tls=nyc_tls, auth=auth(tmp_path / "nyc")
    ) as nyc:
        plain = await with_users(nyc)
        async with (
            connect(plain, user="root", password="secret") as there,
            running(
                tmp_path / "ewr",
                queue_manager={"name": "EWR", "data_dir": tmp_path / "ewr"},
                listen=LISTEN,
                tls=certificates.section(),
                link=links,
            ) as ewr,
            connect(ewr.daemon.addresses[0]) as here,
        ):
            await there.admin.user_create("EWR", roles=["peer"], queue_manager="EWR")
            await there.admin.link_allow("EWR")
            await there.admin.queue_create("Q")
            write(tmp_path / "ewr.token", token(3, sub="EWR"))
            await here.admin.link_create("QM1", [nyc.daemon.addresses[1]])
            await here.admin.queue_create("Q@QM1")
            ends, count, numbers = time.time() + 4, 0, set()
            while time.time() < ends:
                await here.put("Q@QM1", str(count).encode())
                message = await there.get("Q", wait_ms=20_000)
                assert message is not None
                assert message.body == str(count).encode()
                await there.ack(message)
                count += 1
                numbers |= {peer.number for peer in peers_of(nyc, "EWR")}
                write(tmp_path / "ewr.token", token(3, sub="EWR"))
                await asyncio.sleep(0.05)
            assert len(numbers) == 1
