import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.limits import QUEUE_ATTRIBUTES
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.manager import definitions
from qmgr_tools.manager.definitions import Definitions, parsed, read

NAMES = st.text("ABCxyz019._-", min_size=1, max_size=12).filter(
    lambda name: not name.startswith("SYSTEM.")
)


def values(name: str) -> st.SearchStrategy[Any]:
    known = QUEUE_ATTRIBUTES[name]
    if known.quantity == "flag":
        return st.booleans()
    if known.choices:
        return st.sampled_from(known.choices)
    if known.quantity == "queue":
        return st.just("") | st.just("the.one.for.failures")
    whole = st.integers(known.low, known.high)
    return whole | st.just(1.5) if known.quantity == "factor" else whole


LINKS = st.fixed_dictionaries(
    {
        "addresses": st.just(["nyc:7470", "unix:/x"]),
        "connections": st.integers(1, 16),
        "ordered": st.booleans(),
        "fetch": st.booleans(),
        "routes": st.lists(NAMES, max_size=2),
        "transit": st.booleans(),
    }
)
GIVEN = st.fixed_dictionaries({}, optional={name: values(name) for name in QUEUE_ATTRIBUTES})


@given(
    st.dictionaries(NAMES, LINKS, max_size=2),
    st.dictionaries(st.builds("{}*".format, NAMES), GIVEN, max_size=2),
    st.dictionaries(NAMES, GIVEN, max_size=3),
    st.dictionaries(st.builds("alias-{}".format, NAMES), NAMES.map(str.upper), max_size=2),
    st.dictionaries(NAMES, st.sampled_from(["", "6a" * 16]), max_size=2),
)
def test_written_values_are_read_back(
    links: Any, templates: Any, queues: Any, aliases: Any, inbound: Any
) -> None:
    found = Definitions(links, templates, queues, aliases, inbound)
    assert parsed(tomllib.loads(definitions.text(found))) == found


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("x = [", "Invalid"),
        (
            "colour = 1",
            ("colour: unknown key; known keys: links, inbound, templates, queues, aliases"),
        ),
        ("queues = 1", "queues: the value is not a table"),
        ("[inbound]\nFRA = 1", "inbound.FRA: the value is not a table"),
        ("[inbound.FRA]\nstore = 'x'", "inbound.FRA.store: unknown key; did you mean store_id?"),
        ("[inbound.FRA]\nstore_id = 'xy'", "inbound.FRA.store_id: 'xy' is not 32 hexadecimal"),
        ("[inbound.FRA]\nstore_id = 5", "inbound.FRA.store_id: '5' is not 32 hexadecimal"),
        ("[inbound.'a b']", 'inbound."a b": '),
        ("[queues]\nA = 1", "queues.A: the value is not a table"),
        ('[queues."A.B"]\ncolour = 1', 'queues."A.B".colour: unknown'),
        ("[queues.T.1]\ndepth_max = 5", 'queues.T: a name with a dot needs quotes: [queues."T.1"]'),
        ("[queues.A.B.C]", 'queues.A: a name with a dot needs quotes: [queues."A.B.C"]'),
        ("[queues.T.1]\n[queues.T]\ndepth_max = 5", "queues.T: a name with a dot"),
        ("[links.NYC.EAST]\naddresses = ['x:1']", "links.NYC: a name with a dot"),
        ("[aliases]\nA.B = 'Q'", 'aliases.A: a name with a dot needs quotes: "A.B" = '),
        (f"[queues.A{'.b' * 40}]", "queues.A: a name with a dot needs quotes:"),
        ("[queues.A]\ndept_max = 5", "queues.A.dept_max: unknown key; did you mean depth_max?"),
        ("[queues.A]\nlease = 5", "queues.A.lease: unknown key; did you mean lease_ms?"),
        ("[queues.A]\ndepth_max = 0", "queues.A.depth_max: 0 is too small"),
        ('[queues.A]\ndepth_max = "5"', "queues.A.depth_max: '5' is not"),
        ('[queues.A]\nlease_ms = "5 x"', 'queues.A.lease_ms: "5 x" has the unknown unit'),
        ("[queues.A]\nput_inhibit = true", "queues.A.put_inhibit: unknown"),
        ('[queues.A]\nbackout_queue = "A"', "queues.A.backout_queue: the target is the queue"),
        (
            '[queues."F@NYC"]\ndepth_max = 5',
            ('queues."F@NYC".depth_max: unknown key; known keys: none'),
        ),
        ('[queues."@NYC"]\nlease_ms = 500', 'queues."@NYC".lease_ms: unknown'),
        ('[queues."a b"]', "queues.\"a b\": 'a b' is not a valid name"),
        ('[queues."SYSTEM.X"]', 'queues."SYSTEM.X": names that start with SYSTEM.'),
        ('[templates."A B"]', "templates.\"A B\": 'A B' is invalid: use 1 to"),
        ('[templates."*"]\nlease_ms = 1', 'templates."*".lease_ms: 1 ms is'),
        ("[links.NYC]", "links.NYC.addresses: use"),
        ('[links.NYC]\naddresses = ["x"]', "links.NYC.addresses: 'x' is not"),
        ("[aliases]\nS = 1", "aliases.S: 1 is not a valid queue name"),
        ('[aliases]\nS = "S"', "aliases.S: the target is the queue itself"),
        ('[aliases]\nS = "T"\nT = "Q"', "aliases.S: the target T is also an alias"),
        ('[queues.S]\n[aliases]\nS = "T"', "aliases.S: queues.S has the same"),
    ],
)
def test_fault_is_told_with_file_and_path(tmp_path: Path, said: str, why: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(said)
    with pytest.raises(Failure) as caught:
        read(path)
    assert caught.value.exit_code is Exit.USAGE
    assert f"cannot apply {path} -- {why}" in str(caught.value)


def test_sizes_and_times_are_read_as_in_the_configuration() -> None:
    queue = {"lease_ms": "5 min", "bytes_max": "2 MiB", "retry_max_ms": 500}
    assert parsed({"queues": {"Q": queue}}).queues == {
        "Q": {"lease_ms": 300_000, "bytes_max": 2 << 20, "retry_max_ms": 500}
    }


def test_file_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(Failure, match="cannot read") as caught:
            read(path)
        assert caught.value.exit_code is Exit.FAILED
    large = tmp_path / "large"
    large.write_bytes(b"#" * (definitions.FILE_MAX_BYTES + 1))
    with pytest.raises(Failure, match="16,777,216 bytes"):
        read(large)
