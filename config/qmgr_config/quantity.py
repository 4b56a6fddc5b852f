"""Bounded numbers for the model: Annotated[int, in_bytes("1 KiB", "1 GiB")]."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic_core import CoreSchema, core_schema

from qmgr_config.units import bytes_text, count_text, ms_text, parse_bytes, parse_count, parse_ms


@dataclass(frozen=True, slots=True)
class Quantity:
    """The parser of a number, and the inclusive bounds of the number."""

    parse: Callable[[object], int]
    text: Callable[[int], str]
    low: int
    high: int

    @property
    def bounds(self) -> str:
        """The bounds in words, such as "1 KiB to 1 GiB"."""
        return f"{self.text(self.low)} to {self.text(self.high)}"

    def check(self, value: object) -> int:
        """Returns the number in *value*.

        Raises:
            ValueError: *value* is invalid or out of bounds.
        """
        number = self.parse(value)
        if self.low <= number <= self.high:
            return number
        if number > self.high:
            fault = "too large"
        else:
            fault = "not positive" if number <= 0 < self.low else "too small"
        raise ValueError(f"{self.text(number)} is {fault} ({self.bounds})")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        number = core_schema.int_schema(ge=self.low, le=self.high)
        return core_schema.no_info_before_validator_function(self.check, number)


def in_bytes(low: int | str, high: int | str) -> Quantity:
    """Returns the type of a size in bytes."""
    return Quantity(parse_bytes, bytes_text, parse_bytes(low), parse_bytes(high))


def in_ms(low: int | str, high: int | str) -> Quantity:
    """Returns the type of a time in milliseconds."""
    return Quantity(parse_ms, ms_text, parse_ms(low), parse_ms(high))


def count(low: int, high: int) -> Quantity:
    """Returns the type of a number without a unit."""
    return Quantity(parse_count, count_text, low, high)
