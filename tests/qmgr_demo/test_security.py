"""Tests that the secured queue managers of the demo let in only what they should."""

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qmgr_client.aio import QueueManager, connect
from qmgr_client.errors import ConnectFailed, ConnectionEnded, NotAuthorized
from qmgr_demo.cluster import Node
from qmgr_demo.logins import CLIENT, LINK, OWNER, recorded
from qmgr_demo.security import Security, User

SHOP = User("shop", grants=[(["put"], "queue", "ORDERS")])


def test_passwords_and_keys_are_only_for_their_owner(tmp_path: Path) -> None:
    security, node = Security(tmp_path / "secrets"), Node("NYC", tmp_path)
    security.protect(node, logins={"EWR": "NYC"})
    secret = [tmp_path / "secrets/EWR/NYC", tmp_path / "secrets/NYC.key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in secret} == {0o600}
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


@pytest.mark.process
class TestSecuredPair:
    """EWR has a link to NYC, and NYC has the user shop."""

    @pytest.fixture
    async def pair(self, tmp_path: Path) -> AsyncIterator[dict[str, Node]]:
        security = Security(tmp_path / "secrets")
        nodes = {name: Node(name, tmp_path) for name in ("NYC", "EWR")}
        security.protect(nodes["NYC"])
        security.protect(nodes["EWR"], listens=False, logins={"NYC": "EWR"})
        for node in nodes.values():
            node.start()
        try:
            await security.create_users(
                nodes["NYC"], [SHOP, User("EWR", ["peer"], queue_manager="EWR")]
            )
            await security.create_users(nodes["EWR"], [])
            yield nodes
        finally:
            assert [await asyncio.to_thread(node.stop) for node in nodes.values()] == [0, 0]

    @staticmethod
    def owner(node: Node) -> QueueManager:
        return node.connect("test")

    async def test_link_uses_tls_and_is_bound_to_the_certificate(
        self, pair: dict[str, Node]
    ) -> None:
        nyc, ewr = pair["NYC"], pair["EWR"]
        async with self.owner(nyc) as hub, self.owner(ewr) as edge:
            await hub.admin.queue_create("ORDERS")
            await hub.admin.link_allow("EWR")
            await edge.admin.link_create("NYC", [nyc.dialled(nyc.tcp)])
            await edge.admin.queue_create("ORDERS@NYC")
            await edge.put("ORDERS@NYC", b"a ton of pears")
            found = await hub.get("ORDERS", wait_ms=30_000)
        assert found is not None
        for node in pair.values():
            await asyncio.to_thread(node.stop)
        logins = recorded([nyc.log])
        assert logins.accepted[LINK] > 0
        assert (logins.refused, logins.otherwise, logins.denied) == (0, 0, {})

    async def test_user_has_only_its_rights_and_the_refusal_is_recorded(
        self, pair: dict[str, Node]
    ) -> None:
        nyc = pair["NYC"]
        async with self.owner(nyc) as hub, nyc.connect("test", "shop") as shop:
            await hub.admin.queue_create("ORDERS")
            await shop.put("ORDERS", b"a ton of apples")
            with pytest.raises(NotAuthorized):
                await shop.get("ORDERS")
        await asyncio.to_thread(nyc.stop)
        logins = recorded([nyc.log])
        assert logins.denied == {"shop": 1}
        assert (logins.accepted[CLIENT], logins.accepted[OWNER]) == (1, 1)

    async def test_wrong_password_is_recorded_as_refused(self, pair: dict[str, Node]) -> None:
        nyc = pair["NYC"]
        with pytest.raises(ConnectionEnded, match="LOGIN_FAILED"):
            async with connect(nyc.address, user="shop", password="a guess"):
                pass
        await asyncio.to_thread(nyc.stop)
        assert recorded([nyc.log]).refused == 1

    async def test_no_address_is_open_without_tls(self, pair: dict[str, Node]) -> None:
        nyc, ewr = pair["NYC"], pair["EWR"]
        with pytest.raises(ConnectionEnded, match="TLS_REQUIRED"):
            async with connect(nyc.tcp):
                pass
        with pytest.raises(ConnectFailed):
            async with connect(ewr.tcp):
                pass
