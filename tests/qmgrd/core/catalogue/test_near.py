import pytest

from qmgrd.core.catalogue.near import LOOKED_AT_MAX, nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ORDER", "ORDERS"),
        ("orders", "ORDERS"),
        ("ORDRES", "ORDERS"),
        ("OORDERS", "ORDERS"),
        ("ORDERZZ", "ORDERS"),
        ("ORDEZZZ", ""),
        ("FIGS@NYC", "FIG@NYC"),
        ("A", ""),
        ("Q3", ""),
        ("", ""),
        ("NONE", ""),
    ],
)
def test_slip_finds_what_was_meant(name: str, meant: str) -> None:
    assert nearest(name, ["Q2", "ORDERS", "FIG@NYC", "B"]) == meant


def test_nearest_of_several_is_meant_and_the_first_of_equals() -> None:
    assert nearest("ORDERS", ["ORDXXS", "ORDERX", "ORDERY"]) == "ORDERX"
    assert nearest("ORDERS", ["OrderS", "orders"]) == "OrderS"


def test_number_of_compared_names_is_limited() -> None:
    names = iter([f"Q{number}" for number in range(LOOKED_AT_MAX)] + ["ORDERS"])
    assert nearest("ORDER", names) == ""
    assert next(names) == "ORDERS"
