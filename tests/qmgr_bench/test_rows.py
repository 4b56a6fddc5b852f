from qmgr_bench.rows import BEST, OURS, ROWS, references, takes_part

ALL = [*ROWS]


def test_what_targets_and_rows_name_is_there() -> None:
    named = {factor.of for row in ROWS.values() for factor in row.factors}
    assert named <= {*ROWS, BEST, "redis", "rabbitmq"}
    assert references("W4") == ["W1b"]
    assert {row.peers_of for row in ROWS.values()} <= {*ROWS, ""}


def test_each_does_what_it_does_differently() -> None:
    assert takes_part(OURS, "W1b-1", ALL)
    assert not takes_part("redis", "W1b-1", ALL)
    assert takes_part("redis", "W1b-1", ["W1b-1"])
    assert [row for row in ROWS if takes_part("redis-batch", row, ALL)] == ["W2", "W3", "W2-1k"]
    assert not takes_part("postgres-batch", "W1a", ALL)
    assert takes_part("postgres-batch", "W3", ALL)
