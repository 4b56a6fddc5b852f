"""Administration of users, roles and grants."""

import subprocess
import sys
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_protocol import verifier as verifiers
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.scram import make_verifier
from tests.qmgr_client.rows_check import check
from tests.qmgr_client.served import serve

PASSWORD = "correct horse"


async def test_user_lives_from_its_creation_to_its_end(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        created = await admin.user_create("alice", PASSWORD, roles=["administrator"])
        check(created, admin.user_create)
        assert (created["roles"], created["has_password"]) == (["administrator"], True)
        assert "verifier" not in created
        disabled = await admin.user_create("bob", roles=["monitor", "producer"], enabled=False)
        assert (disabled["enabled"], disabled["has_password"]) == (False, False)
        altered = await admin.user_alter("bob", password="x y", roles=[], enabled=True)
        check(altered, admin.user_alter)
        assert (altered["enabled"], altered["has_password"], altered["roles"]) == (True, True, [])
        assert (await admin.user_alter("bob", password=""))["has_password"] is False
        rows = check(await admin.user_list(), admin.user_list)
        assert [row["user"] for row in rows] == ["alice", "bob"]
        assert check(await admin.user_delete("bob"), admin.user_delete)["connections"] == 0
        with pytest.raises(RequestError) as caught:
            await admin.user_show("bob")
        assert caught.value.code is ErrorCode.USER_UNKNOWN


async def test_verifier_is_made_here_with_a_new_salt_and_proves_the_password(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        for name in ("a", "b"):
            await admin.user_create(name, PASSWORD, roles=["administrator"])
        shown = check(await admin.user_show("a", secrets=True), admin.user_show)
        first = verifiers.parse(shown["verifier"])
        second = verifiers.parse((await admin.user_show("b", secrets=True))["verifier"])
        assert len(first.salt) == len(second.salt) == 16
        assert first.salt != second.salt
        assert make_verifier(PASSWORD, first.salt, first.iterations) == first
        await admin.user_create("c", verifier=shown["verifier"])
        await admin.user_alter("b", verifier=shown["verifier"])
        for name in "bc":
            copied = await admin.user_show(name, secrets=True)
            assert copied["verifier"] == shown["verifier"]


async def test_user_logs_in_with_the_new_password_only(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.user_create("alice", PASSWORD, roles=["administrator"])
        async with connect(address, user="alice", password=PASSWORD) as alice:
            row = await manager.admin.user_alter("alice", password="new")
            assert row["connections"] == 1
            with pytest.raises(RequestError):
                await alice.admin.status()
        with pytest.raises(RequestError) as caught:
            await connect(address, user="alice", password=PASSWORD).open()
        assert caught.value.code is ErrorCode.LOGIN_FAILED
        async with connect(address, user="alice", password="new") as alice:
            assert (await alice.admin.status())["open"] is False


async def test_roles_and_grants(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        assert (await admin.status())["open"] is True
        await admin.user_create("alice", PASSWORD, roles=["administrator"])
        await admin.user_create("bob")
        assert check(await admin.role_create("billing"), admin.role_create)["grants"] == []
        of_role = await admin.grant_create(["get", "browse"], "queue", "BILL.*", role="billing")
        check(of_role, admin.grant_create)
        assert of_role["grants"] == [["get", "queue", "BILL.*"], ["browse", "queue", "BILL.*"]]
        of_user = await admin.grant_create(["show"], "manager", user="bob")
        assert check(of_user, admin.grant_create)["grants"] == [["show", "manager", ""]]
        left = await admin.grant_delete(["get"], "queue", "BILL.*", role="billing")
        assert check(left, admin.grant_delete)["grants"] == [["browse", "queue", "BILL.*"]]
        roles = check(await admin.role_list(), admin.role_list)
        assert {row["role"] for row in roles if not row["built_in"]} == {"billing"}
        assert check(await admin.role_show("billing"), admin.role_show) in roles
        assert check(await admin.role_delete("billing"), admin.role_delete)["users"] == 0
        with pytest.raises(RequestError) as caught:
            await admin.grant_delete(["get"], "queue", "*", user="bob")
        assert caught.value.code is ErrorCode.GRANT_UNKNOWN


async def test_explanation_names_the_grant(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        await admin.user_create("alice", PASSWORD, roles=["administrator"])
        await admin.user_create("bob")
        await admin.grant_create(["move"], "queue", "A*", user="bob")
        values = {"queue": "A1", "target": "B"}
        found = check(await admin.access_explain("bob", "QueueMove", values), admin.access_explain)
        assert found["allowed"] is False
        assert [(x["right"], x["name"], x["by"]) for x in found["decisions"]] == [
            ("move", "A1", "move queue A*"),
            ("put", "B", ""),
        ]
        assert (await admin.access_explain("alice", "QueueMove", values))["allowed"] is True


async def test_rules_for_logins_are_shown_and_tested(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        rules = check(await admin.access_rules(), admin.access_rules)
        assert (rules["default"], len(rules["rules"])) == (True, 2)
        found = check(await admin.access_test("10.1.2.3", "app"), admin.access_test)
        assert found == {"allowed": False, "rule": 0, "why": "no rule fits"}
        assert (await admin.access_test("10.1.2.3", "app", tls="required"))["rule"] == 2


@pytest.mark.parametrize("names", ["monitor", ""])
async def test_text_is_no_list_of_roles_or_rights(tmp_path: Path, names: str) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        with pytest.raises(RequestError, match="rights must be a list: write"):
            await manager.admin.grant_create(names, "queue", "*", user="bob")
        with pytest.raises(RequestError, match="roles must be a list: write"):
            await manager.admin.user_alter("bob", roles=names)


async def test_password_with_invalid_characters_is_refused_before_it_is_sent(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        with pytest.raises(RequestError, match="invalid password") as caught:
            await manager.admin.user_create("alice", "a\x07b", roles=["administrator"])
        assert caught.value.code is ErrorCode.VALUE_INVALID
        assert "\x07" not in caught.value.text


def test_library_for_logins_is_not_loaded_before_it_is_needed() -> None:
    program = "import sys, qmgr_client.blocking; sys.exit('scramp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
