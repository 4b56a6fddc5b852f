import pytest

from qmgr_tools.cli.failure import Failure
from qmgr_tools.user import new_password


def test_generated_passwords_differ_and_are_long() -> None:
    found = {new_password.find("test", "bob", None, generate=True) for _ in range(10)}
    assert len(found) == 10
    assert min(map(len, found)) >= 20


def test_one_source_excludes_the_others() -> None:
    new_password.check("test", password_file="f", generate=False)
    with pytest.raises(Failure, match="--password-file and --generate exclude each other"):
        new_password.check("test", password_file="f", generate=True)
