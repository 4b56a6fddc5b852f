"""qmctl role: create, ls, show, delete."""

import pytest

from tests.qmgr_tools.conftest import Qmctl, numbers

pytestmark = pytest.mark.process


def test_role_is_created_listed_and_deleted(qm: Qmctl) -> None:
    name = f"gates{next(numbers)}"
    assert qm("role", "create", name).out.startswith(f"created role {name}; to grant it rights: ")
    qm("grant", "create", "--role", name, "put,get", "queue", "GATE.*")
    header, *rows = qm("role", "ls").out.splitlines()
    assert header == "ROLE\tBUILT IN\tGRANTS\tUSERS"
    assert f"{name}\tno\t2\t0" in rows
    assert "administrator\tyes\t0\t0" in rows
    shown = qm("role", "show", name).out.splitlines()
    assert shown[-1] == "get, put\tqueue\tGATE.*"
    found = qm("role", "show", name, "-o", "json").json
    assert set(found) == {"role", "built_in", "grants", "users"}
    assert qm("role", "delete", name).out == f"deleted role {name}, with 2 grants\n"
    assert qm("role", "show", name).code == 3


def test_role_of_a_user_is_not_deleted(at: Qmctl) -> None:
    at("role", "create", "gates")
    words = ["--role", "administrator", "--role", "gates", "--generate"]
    at("user", "create", "admin", *words)
    ended = at("role", "delete", "gates")
    assert (ended.code, "role gates is given to 1 user (ROLE_IN_USE)" in ended.err) == (6, True)
    assert ended.err.endswith("user ls --where 'roles=*gates*'\n")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["delete", "monitor"], 6, "role monitor is built in"),
        (["create", "monitor"], 6, "see: qmctl role show monitor"),
        (["create", "a/b"], 2, "NAME_INVALID"),
        (["show", "moniter"], 3, "did you mean monitor?"),
    ],
)
def test_mistakes_are_explained(words: list[str], code: int, error: str, qm: Qmctl) -> None:
    ended = qm("role", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err
