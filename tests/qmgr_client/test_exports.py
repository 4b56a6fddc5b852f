"""Tests of the public names of the client. Exactly one module defines each name."""

import pytest

import qmgr_client
from qmgr_client import aio, blocking, exports


@pytest.mark.parametrize("package", [aio, blocking, qmgr_client], ids=lambda found: found.__name__)
@pytest.mark.parametrize("name", exports.__all__)
def test_name_in_common_is_the_same_everywhere(package: object, name: str) -> None:
    assert getattr(package, name) is getattr(exports, name)


@pytest.mark.parametrize("package", [aio, blocking], ids=lambda found: found.__name__)
def test_package_lists_each_of_its_names_once(package: object) -> None:
    names: list[str] = getattr(package, "__all__")  # noqa: B009
    assert len(names) == len(set(names))
    assert all(hasattr(package, name) for name in names)


def test_clients_offer_the_same_names() -> None:
    renamed = {"QueueManager": "Client"}
    assert {renamed.get(name, name) for name in aio.__all__} == set(blocking.__all__)
