"""The rows with peers: the work, the servers that take part, and the targets of our daemon."""

from dataclasses import dataclass

PREFETCH = 256
SECONDS = 3.0  # seconds of putting in a run; a shorter run also has a smaller backlog
OURS = "qmgrd"
BEST = "the best peer"


@dataclass(frozen=True, slots=True)
class Factor:
    """A target: our messages per second are at least ``times`` times the rate of ``of``."""

    times: float
    of: str  # name of a server, BEST, or one of our rows


@dataclass(frozen=True, slots=True)
class Row:
    """The work of a row."""

    about: str
    producers: int = 1
    inflight: int = 256
    gets: bool = False
    backlog: int = 0  # number of messages that are put before the measurement
    size_bytes: int = 256
    factors: tuple[Factor, ...] = ()
    cpu_us_max: float | None = None  # maximum processor time of our daemon per message
    # name of the row with the peers for comparison; only our daemon runs this row
    peers_of: str = ""
    one_a_frame: bool = False


_PUT = "put, 1 producer, 256 in flight"
_PUT_16 = "put, 16 producers, 64 in flight each"
_BOTH = "put, 256 in flight, and get, 256 ahead, each acked"
ROWS = {
    "W1a": Row("put, 1 producer, 1 in flight", inflight=1),
    "W1b": Row(_PUT, factors=(Factor(1.0, "redis"), Factor(2.0, "rabbitmq")), cpu_us_max=9),
    "W1b-1": Row(
        f"{_PUT}, one per frame",
        factors=(Factor(0.8, "redis"), Factor(2.0, "rabbitmq")),
        peers_of="W1b",
        one_a_frame=True,
    ),
    "W1c": Row(_PUT_16, 16, 64, factors=(Factor(0.7, "redis"),), cpu_us_max=7),
    "W1c-1": Row(
        f"{_PUT_16}, one per frame",
        16,
        64,
        factors=(Factor(0.5, "redis"),),
        peers_of="W1c",
        one_a_frame=True,
    ),
    "W2": Row(_BOTH, gets=True, factors=(Factor(1.1, BEST),), cpu_us_max=15),
    "W3": Row(
        "get a backlog of 200,000, 256 ahead, each acked",
        producers=0,
        gets=True,
        backlog=200_000,
        factors=(Factor(1.5, BEST),),
    ),
    "W1b-1k": Row(f"{_PUT}, 1 KiB", size_bytes=1024, factors=(Factor(1.5, BEST),)),
    "W2-1k": Row(f"{_BOTH}, 1 KiB", size_bytes=1024, gets=True, factors=(Factor(1.5, BEST),)),
    "W4": Row(f"{_PUT}, on a queue of 1,000,000", backlog=1_000_000, factors=(Factor(0.9, "W1b"),)),
}


def takes_part(server: str, name: str, rows: list[str]) -> bool:
    """Returns whether *server* takes part in row *name* if *rows* are measured.

    A variant of a server, with other acks or with groups of puts, takes part only in rows where it
    differs. If a row is ours alone, its peers are measured in the row that it names.
    """
    row = ROWS[name]
    if server == OURS:
        return True
    if row.peers_of in rows:
        return False
    if server == "redis-batch":
        return row.gets
    return server != "postgres-batch" or row.inflight > 1


def references(name: str) -> list[str]:
    """Returns the rows of ours that row *name* is compared with."""
    return [factor.of for factor in ROWS[name].factors if factor.of in ROWS]
