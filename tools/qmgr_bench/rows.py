"""The rows: the pieces of work, the servers that do them, and the targets of this daemon."""

from dataclasses import dataclass

PREFETCH = 256
SECONDS = 3.0  # of putting; shorter runs have a smaller backlog, too
OURS = "qmgrd"
BEST = "the best peer"


@dataclass(frozen=True, slots=True)
class Factor:
    """A target: our messages per second are at least ``times`` those of ``of``."""

    times: float
    of: str  # a server, BEST, or a row of ours


@dataclass(frozen=True, slots=True)
class Row:
    """A piece of work."""

    about: str
    producers: int = 1
    inflight: int = 256
    gets: bool = False
    backlog: int = 0  # messages put beforehand
    size_bytes: int = 256
    factors: tuple[Factor, ...] = ()
    cpu_us_max: float | None = None  # of our processor time per message
    peers_of: str = ""  # the row with the peers for the comparison; only we do this one
    one_a_frame: bool = False


_PUT = "put, 1 producer, 256 in flight"
_PUT_16 = "put, 16 producers, 64 in flight each"
_BOTH = "put, 256 in flight, and get, 256 ahead, each acked"
ROWS = {
    "W1a": Row("put, 1 producer, 1 in flight", inflight=1),
    "W1b": Row(_PUT, factors=(Factor(1.0, "redis"), Factor(2.0, "rabbitmq")), cpu_us_max=9),
    "W1b-1": Row(
        f"{_PUT}, one a frame",
        factors=(Factor(0.8, "redis"), Factor(2.0, "rabbitmq")),
        peers_of="W1b",
        one_a_frame=True,
    ),
    "W1c": Row(_PUT_16, 16, 64, factors=(Factor(0.7, "redis"),), cpu_us_max=7),
    "W1c-1": Row(
        f"{_PUT_16}, one a frame",
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
    """Returns whether *server* does the row *name* if *rows* are measured.

    A variant of a server with other acks or with groups of puts does only the rows where it
    differs. The peers of a row that is ours alone are measured in the other row.
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
    """Returns our rows that our result in the row *name* is compared with."""
    return [factor.of for factor in ROWS[name].factors if factor.of in ROWS]
