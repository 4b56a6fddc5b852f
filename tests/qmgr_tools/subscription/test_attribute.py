from qmgr_protocol.limits import SUBSCRIPTION_ATTRIBUTES
from qmgr_tools.subscription import attribute as subscription_attribute


def test_each_attribute_has_its_option_and_its_column() -> None:
    said = [name for names in subscription_attribute.PANELS.values() for name in names]
    assert sorted(said) == sorted(SUBSCRIPTION_ATTRIBUTES)
    assert {column.key for column in subscription_attribute.COLUMNS} == set(said)
    options = subscription_attribute.options(takes_default=False)
    assert {option.name for option in options} == set(said)


def test_limit_that_is_not_set_is_the_topics() -> None:
    (column,) = [c for c in subscription_attribute.COLUMNS if c.key == "redelivery_limit"]
    assert column.cell({"redelivery_limit": -1}) == "the topic's"
    assert column.cell({"redelivery_limit": 0}) == "0"
