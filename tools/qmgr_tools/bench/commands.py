"""qmctl bench: how many messages a second a queue manager takes, and how long each waits."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from qmgr_protocol.record import PRIORITY_DEFAULT, PRIORITY_MAX
from qmgr_tools import option, output
from qmgr_tools.command import Call, command
from qmgr_tools.failure import Exit, Failure, refused

app = typer.Typer(help="Measure puts, gets, or both at once.", no_args_is_help=True)

QUEUE = "qmctl.bench"
PRODUCERS_MAX = 500

QueueName = Annotated[
    str, typer.Option("--queue", metavar="QUEUE", help="Made if need be; else it must be empty.")
]
Count = Annotated[
    int | None, typer.Option(metavar="N", min=1, show_default=False, help="Stop after so many.")
]
Backlog = Annotated[int, typer.Option("--count", metavar="N", min=1, help="The backlog to get.")]
Seconds = Annotated[
    float, typer.Option(metavar="TIME", parser=option.seconds, help="Stop after so long.")
]
Size = Annotated[int, typer.Option(metavar="SIZE", parser=option.size, help="Of each body.")]
Producers = Annotated[
    int, typer.Option(metavar="N", min=1, max=PRODUCERS_MAX, help="Each has its own connection.")
]
Inflight = Annotated[
    int, typer.Option(metavar="N", min=1, help="Puts of a producer without an answer, at most.")
]
Prefetch = Annotated[
    int, typer.Option(metavar="N", min=1, help="Messages the consumer may have ahead.")
]
OneAFrame = Annotated[
    bool,
    typer.Option(
        "--one-a-frame/--coalesce", help="Whether puts that leave together share a frame."
    ),
]
Same = Annotated[bool, typer.Option("--same/--vary", help="Whether all bodies are the same.")]
Priority = Annotated[int, typer.Option(metavar="0-9", min=0, max=PRIORITY_MAX)]

FACTS = (
    output.text("work"),
    output.count("messages_per_second", "messages a second"),
    output.count("messages"),
    output.count("seconds"),
    output.text("put", "put, until on disk"),
    output.text("end_to_end", "put, until got"),
    output.text("ack", "ack, until on disk"),
    output.text("daemon", "daemon"),
    output.text("generator", "this generator"),
)
JSON_KEYS = """\b
JSON: an object with
  mode, queue, messages, seconds, messages_per_second
  put_p50_ms, put_p99_ms                  from sending a put to its answer
  ack_p50_ms, ack_p99_ms                  from sending an ack to its answer
  end_to_end_p50_ms, end_to_end_p99_ms    from put to get; of 1 producer only
  daemon_cpu_us, generator_cpu_us         processor time a message
  size_bytes, producers, inflight, prefetch, one_a_frame, same, priority
What was not measured is null."""


@command(app, "put", JSON_KEYS)
def put(
    call: Call, queue: QueueName = QUEUE, count: Count = None, seconds: Seconds = 5.0,
    size: Size = 256, producers: Producers = 1, inflight: Inflight = 256,
    one_a_frame: OneAFrame = False, same: Same = False, priority: Priority = PRIORITY_DEFAULT,
) -> None:  # fmt: skip
    """Measure puts: each producer keeps its window full."""
    _measure(
        call, mode="put", queue=queue, count=count, seconds=seconds, size=size, same=same,
        producers=producers, inflight=inflight, one_a_frame=one_a_frame, priority=priority,
    )  # fmt: skip


@command(app, "get", JSON_KEYS)
def get(
    call: Call, queue: QueueName = QUEUE, count: Backlog = 100_000, size: Size = 256,
    prefetch: Prefetch = 256, same: Same = False, priority: Priority = PRIORITY_DEFAULT,
) -> None:  # fmt: skip
    """Measure gets: a backlog is put first, then got and acknowledged by one consumer."""
    _measure(
        call, mode="get", queue=queue, count=count, size=size, same=same, prefetch=prefetch,
        priority=priority,
    )  # fmt: skip


@command(app, "putget", JSON_KEYS)
def putget(
    call: Call, queue: QueueName = QUEUE, count: Count = None, seconds: Seconds = 5.0,
    size: Size = 256, producers: Producers = 1, inflight: Inflight = 256,
    prefetch: Prefetch = 256, one_a_frame: OneAFrame = False, same: Same = False,
    priority: Priority = PRIORITY_DEFAULT,
) -> None:  # fmt: skip
    """Measure puts and, at the same time, one consumer that acknowledges each message."""
    _measure(
        call, mode="putget", queue=queue, count=count, seconds=seconds, size=size, same=same,
        producers=producers, inflight=inflight, prefetch=prefetch, one_a_frame=one_a_frame,
        priority=priority,
    )  # fmt: skip


def _measure(call: Call, **given: Any) -> None:
    from qmgr_tools.bench.measure import Work, measure  # takes 40 ms: not for --help

    address = call.address()
    if sys.stderr.isatty():
        output.note("measuring; Ctrl-C ends it")
    with _failing(f"measure {given['mode']}", address):
        row = measure(address, Work(**given))
    if call.is_json:
        output.document(row)
    else:
        output.facts(FACTS, _in_words(row))


@contextmanager
def _failing(doing: str, address: str) -> Iterator[None]:
    from qmgr_protocol.errors import RequestError
    from qmgr_tools.bench.load import LoadFailed

    try:
        yield
    except RequestError as error:
        raise refused(doing, error) from error
    except LoadFailed as error:
        raise Failure(Exit.FAILED, f"cannot {doing}", str(error), "see: qmctl status") from error
    except OSError as error:
        raise Failure(
            Exit.UNAVAILABLE, f"cannot {doing}", f"cannot connect to {address}: {error.strerror}",
            "is qmgrd running there? --connect says where else",
        ) from error  # fmt: skip


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row as people read it."""
    words = dict(row)
    producers = row["producers"]
    windows = [
        f"{producers} producer{'s' * (producers > 1)} with {row['inflight']} in flight"
        if producers
        else "",
        f"1 consumer with {row['prefetch']} ahead" if row["prefetch"] else "",
    ]
    words["work"] = f"{row['size_bytes']} B, " + ", ".join(filter(None, windows))
    words["messages_per_second"] = f"{row['messages_per_second']:,}"
    words["messages"] = f"{row['messages']:,}"
    for name in ("put", "ack", "end_to_end"):
        if row[f"{name}_p50_ms"] is not None:
            words[name] = f"p50 {row[f'{name}_p50_ms']} ms, p99 {row[f'{name}_p99_ms']} ms"
    for name in ("daemon", "generator"):
        if row[f"{name}_cpu_us"]:  # Too little for the system's clock is not told.
            words[name] = f"{row[f'{name}_cpu_us']} us of processor a message"
    return words
