"""Tests of the base class of the administration methods."""

from typing import Any

import pytest

from qmgr_client.aio.asker import Asker
from qmgr_client.manager_rows import ManagerStatus
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError


@pytest.mark.parametrize("value", [None, [], "row"])
async def test_answer_that_is_no_row_is_refused(value: object) -> None:
    async def ask(kind: type[Any], *fields: Any) -> Any:
        return value

    with pytest.raises(RequestError, match="Status: the answer is not a map") as caught:
        await Asker(ask)._row(ManagerStatus, m.Status)
    assert caught.value.code == ErrorCode.FIELD_INVALID


async def test_row_is_returned_as_it_is() -> None:
    async def ask(kind: type[Any], *fields: Any) -> Any:
        return {"kind": kind, "fields": fields}

    found = await Asker(ask)._row(dict[str, Any], m.JobShow, 7)
    assert found == {"kind": m.JobShow, "fields": (7,)}
