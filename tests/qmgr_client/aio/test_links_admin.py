"""Tests of the administration of links."""

from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.served import serve


async def test_link_lives_from_its_creation_to_its_end(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        row = await admin.link_create("HUB", ["127.0.0.1:1"], stopped=True, routes=["FAR"])
        assert (row["state"], row["routes"]) == ("stopped", ["FAR"])
        altered = await admin.link_alter("HUB", ["127.0.0.1:2"], ordered=True)
        assert set(altered["changed"]) == {"addresses", "ordered"}
        assert (await admin.link_show("HUB"))["addresses"] == ["127.0.0.1:2"]
        assert await admin.link_delete("HUB") == {"messages": 0}
        assert (await admin.link_list())["links"] == []


async def test_peer_is_allowed_and_disallowed(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        assert (await admin.link_allow("JFK", b"7" * 16))["store_id"] == (b"7" * 16).hex()
        assert [row["peer"] for row in (await admin.link_list())["allowed"]] == ["JFK"]
        assert (await admin.link_disallow("JFK"))["connections"] == 0
        with pytest.raises(RequestError) as caught:
            await admin.link_disallow("JFK")
        assert caught.value.code is ErrorCode.LINK_UNKNOWN


@pytest.mark.parametrize("wrong", ["127.0.0.1:1", ""])
async def test_text_is_no_list_of_addresses(tmp_path: Path, wrong: str) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        with pytest.raises(RequestError, match="addresses must be a list: write"):
            await manager.admin.link_create("HUB", wrong)  # type: ignore[arg-type]
