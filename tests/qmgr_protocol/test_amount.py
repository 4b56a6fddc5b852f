from qmgr_protocol.amount import amount


def test_only_one_is_singular() -> None:
    said = [amount(count, "message") for count in (0, 1, 2)]
    assert said == ["0 messages", "1 message", "2 messages"]
