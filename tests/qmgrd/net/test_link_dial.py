"""Tests of the reasons for which a link cannot dial its peer, and of a peer with standbys."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import connect
from qmgr_config.link import LinkConfig
from qmgrd.core.context.context import Dial
from qmgrd.net import link_dial
from qmgrd.net.link_dial import dial_link
from tests.member import members, take_over
from tests.qmgr_client.served import serve


def effect(address: str) -> Dial:
    return Dial("HUB", address, 1)


async def dialled(config: dict[str, Any], address: str, tls: Any = None) -> str:
    """Returns the reason for the failure."""

    def new_peer(*arguments: object) -> Any:
        raise AssertionError("no connection was made")

    link = LinkConfig.model_validate(config)
    return await dial_link(effect(address), link, None, tls, new_peer)  # type: ignore[arg-type]


async def test_link_without_its_required_login_does_not_dial() -> None:
    why = await dialled({"require_login": True}, "127.0.0.1:1")
    assert why.startswith("127.0.0.1:1: link.require_login is set, but no login for HUB")


async def test_missing_password_file_is_named(tmp_path: Path) -> None:
    login = {"manager": "HUB", "user": "u", "password_file": str(tmp_path / "missing")}
    why = await dialled({"logins": [login]}, "127.0.0.1:1")
    assert str(tmp_path / "missing") in why


async def test_other_address_is_dialled_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dial(address: str, protocol: object) -> str:
        return f"{address}: no answer"

    monkeypatch.setattr(link_dial, "dial", dial)
    assert await dialled({}, "127.0.0.1:1") == "127.0.0.1:1: no answer"


async def test_address_with_tls_is_dialled_with_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tls:
        async def dial(self, address: str, login: object, make_peer: object) -> str:
            return f"{address} with {login}"

    monkeypatch.setattr(link_dial, "link_login", lambda login, address: None)
    assert await dialled({}, "tls:127.0.0.1:1", Tls()) == "tls:127.0.0.1:1 with None"


async def test_link_follows_its_peer_over_takeovers(tmp_path: Path) -> None:
    async with (
        serve(tmp_path / "peer") as socket,
        serve(tmp_path / "here", name="EWR") as own,
        members(socket) as (one, two),
        connect(socket) as there,
        connect(own) as here,
        asyncio.timeout(60),
    ):
        await there.admin.link_allow("EWR")
        await there.admin.queue_create("Q")
        await here.admin.link_create("QM1", [two.address, one.address])
        await here.admin.queue_create("Q@QM1")
        for number in range(4):
            await here.put("Q@QM1", b"%d" % number)
            message = await there.get("Q", wait_ms=20_000)
            assert message is not None
            assert message.body == b"%d" % number
            await there.ack(message)
            (path,) = (await here.admin.link_show("QM1"))["paths"]
            assert path["address"] == one.address
            await take_over(one, two)
            one, two = two, one
        assert not await there.get("Q")
