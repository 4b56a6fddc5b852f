import re
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from qmgr_config.quantity import Quantity, count, in_bytes, in_ms


@pytest.mark.parametrize(
    ("quantity", "value", "fault"),
    [
        (count(1, 100_000), -1, "-1 is not positive (1 to 100_000)"),
        (count(1, 100_000), 0, "0 is not positive (1 to 100_000)"),
        (count(10, 95), 9, "9 is too small (10 to 95)"),
        (count(10, 95), 96, "96 is too large (10 to 95)"),
        (in_bytes(0, "1 GiB"), -1024, "-1 KiB is too small (0 B to 1 GiB)"),
        (in_bytes("1 KiB", "1 GiB"), "2 GiB", "2 GiB is too large (1 KiB to 1 GiB)"),
        (in_ms("100 ms", "1 d"), "0.09 s", "90 ms is too small (100 ms to 1 d)"),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_them(
    quantity: Quantity, value: object, fault: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
        quantity.check(value)


@given(st.integers(-5, 25))
def test_bounds_are_included(number: int) -> None:
    if 3 <= number <= 17:
        assert count(3, 17).check(number) == number
    else:
        with pytest.raises(ValueError, match="3 to 17"):
            count(3, 17).check(number)


class Model(BaseModel):
    size_bytes: Annotated[int, in_bytes("1 KiB", "1 MiB")] = 2048


def test_a_model_reads_units_and_knows_the_bounds() -> None:
    assert Model.model_validate({"size_bytes": "4 KiB"}).size_bytes == 4096
    schema = Model.model_json_schema()["properties"]["size_bytes"]
    assert (schema["minimum"], schema["maximum"]) == (1024, 1 << 20)
    with pytest.raises(ValidationError, match=r"1 B is too small \(1 KiB to 1 MiB\)"):
        Model.model_validate({"size_bytes": 1})
