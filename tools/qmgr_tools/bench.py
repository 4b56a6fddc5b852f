"""qmctl bench: how many messages a second a queue manager takes, and how long each waits."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import PRIORITY_DEFAULT, PRIORITY_MAX
from qmgr_tools import option, output
from qmgr_tools.bench_load import Load, LoadFailed, Outcome, Plan
from qmgr_tools.bench_qmgr import QmgrReceiver, QmgrSender, Wire, bodies, records
from qmgr_tools.command import Call, command
from qmgr_tools.failure import Exit, Failure, refused, usage

app = typer.Typer(help="Measure puts, gets, or both at once.", no_args_is_help=True)

QUEUE = "qmctl.bench"
FOREVER_S = float("inf")
PRELOAD_INFLIGHT = 1_024
PRELOAD_BYTES = 1 << 20
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
  end_to_end_p50_ms, end_to_end_p99_ms    from sending a put to getting it; of 1 producer only
  daemon_cpu_us, generator_cpu_us         processor time a message
  size_bytes, producers, inflight, prefetch, one_a_frame, same, priority
What was not measured is null."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What to measure."""

    mode: str
    queue: str
    size: int
    priority: int
    same: bool
    producers: int = 0
    inflight: int = 0
    one_a_frame: bool = False
    prefetch: int = 0

    def pool(self) -> list[bytes]:
        """Return the records to put."""
        return records(bodies(self.size, vary=not self.same), self.priority)

    def sender(
        self, address: str, number: int, pool: list[bytes], sockets: ExitStack
    ) -> QmgrSender:
        """Return a producer on a new connection, which *sockets* closes."""
        wire = sockets.enter_context(Wire(address, f"{QUEUE}.producer.{number}"))
        return QmgrSender(wire, self.queue, pool, coalesce=not self.one_a_frame)

    def receiver(self, address: str, sockets: ExitStack) -> QmgrReceiver:
        """Return the consumer on a new connection, which *sockets* closes."""
        wire = sockets.enter_context(Wire(address, f"{QUEUE}.consumer"))
        return QmgrReceiver(wire, self.queue, self.prefetch)


@command(app, "put", JSON_KEYS)
def put(
    call: Call, queue: QueueName = QUEUE, count: Count = None, seconds: Seconds = 5.0,
    size: Size = 256, producers: Producers = 1, inflight: Inflight = 256,
    one_a_frame: OneAFrame = False, same: Same = False, priority: Priority = PRIORITY_DEFAULT,
) -> None:  # fmt: skip
    """Measure puts: each producer keeps its window full."""
    work = Bench("put", queue, size, priority, same, producers, inflight, one_a_frame)
    _run(call, work, Plan(inflight, seconds, count or 0))


@command(app, "get", JSON_KEYS)
def get(
    call: Call, queue: QueueName = QUEUE, count: Backlog = 100_000, size: Size = 256,
    prefetch: Prefetch = 256, same: Same = False, priority: Priority = PRIORITY_DEFAULT,
) -> None:  # fmt: skip
    """Measure gets: a backlog is put first, then got and acknowledged by one consumer."""
    work = Bench("get", queue, size, priority, same, prefetch=prefetch)
    _run(call, work, Plan(0, FOREVER_S, count))


@command(app, "putget", JSON_KEYS)
def putget(
    call: Call, queue: QueueName = QUEUE, count: Count = None, seconds: Seconds = 5.0,
    size: Size = 256, producers: Producers = 1, inflight: Inflight = 256,
    prefetch: Prefetch = 256, one_a_frame: OneAFrame = False, same: Same = False,
    priority: Priority = PRIORITY_DEFAULT,
) -> None:  # fmt: skip
    """Measure puts and, at the same time, one consumer that acknowledges each message."""
    work = Bench("putget", queue, size, priority, same, producers, inflight, one_a_frame, prefetch)
    _run(call, work, Plan(inflight, seconds, count or 0))


def _run(call: Call, work: Bench, plan: Plan) -> None:
    address = call.address()
    with _failing(f"measure {work.mode}", address), _empty_queue(address, work):
        pool = work.pool()
        if not plan.inflight:
            _preload(address, work, pool, plan.count)
        with ExitStack() as sockets:
            senders = [work.sender(address, i, pool, sockets) for i in range(work.producers)]
            receiver = work.receiver(address, sockets) if work.prefetch else None
            before_ms = _cpu_ms(address)
            outcome = Load(plan, senders, receiver).run()
            row = _measured(work, outcome, _cpu_ms(address) - before_ms)
    if call.is_json:
        output.document(row)
    else:
        output.facts(FACTS, _in_words(row))


@contextmanager
def _failing(doing: str, address: str) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        raise refused(doing, error) from error
    except LoadFailed as error:
        raise Failure(Exit.FAILED, f"cannot {doing}", str(error), "see: qmctl status") from error
    except OSError as error:
        raise Failure(
            Exit.UNAVAILABLE, f"cannot {doing}", f"cannot connect to {address}: {error.strerror}",
            "is qmgrd running there? say another address with --connect",
        ) from error  # fmt: skip


@contextmanager
def _empty_queue(address: str, work: Bench) -> Iterator[None]:
    """Have the queue there and empty, and leave things as they were.

    Raises:
        Failure: REFUSED, somebody's messages are on it; USAGE, windows that are not granted.
    """
    with Wire(address, QUEUE) as control:
        _check_window(control.welcome, work)
        try:
            depth, existed = control.ask(m.QueueShow, work.queue).get("depth", 0), True
        except RequestError as error:
            if error.code != ErrorCode.QUEUE_UNKNOWN:
                raise
            depth, existed = 0, False
            control.ask(m.QueueCreate, work.queue)
    if depth:
        raise Failure(
            Exit.REFUSED, f"cannot measure on {work.queue}", f"{depth} messages are on it",
            "give another --queue; it is made and deleted again",
        )  # fmt: skip
    try:
        yield
    finally:
        with Wire(address, QUEUE) as control:  # The first would have fallen silent for too long.
            if existed:
                control.ask(m.QueuePurge, work.queue)
            else:
                control.ask(m.QueueDelete, work.queue, True)


def _check_window(welcome: m.Welcome, work: Bench) -> None:
    limit = welcome.put_window_messages
    if work.inflight > limit:
        why = f"the queue manager grants a window of {limit} puts"
        raise usage(f"--inflight {work.inflight} is too many", why, f"say at most {limit}")
    limit = welcome.put_window_bytes
    if work.inflight * work.size > limit:
        why = f"the queue manager grants a window of {limit} bytes, this is more"
        raise usage(f"--inflight {work.inflight} of --size {work.size}", why, "say less of one")


def _preload(address: str, work: Bench, pool: list[bytes], count: int) -> None:
    window = max(min(PRELOAD_INFLIGHT, PRELOAD_BYTES // max(work.size, 1)), 1)
    with Wire(address, f"{QUEUE}.preload") as wire:
        sender = QmgrSender(wire, work.queue, pool, coalesce=True)
        Load(Plan(window, FOREVER_S, count), [sender], None).run()


def _cpu_ms(address: str) -> int:
    with Wire(address, QUEUE) as control:
        return control.cpu_ms()


def _measured(work: Bench, outcome: Outcome, cpu_ms: int) -> dict[str, Any]:
    messages = outcome.messages
    row: dict[str, Any] = {
        "mode": work.mode,
        "queue": work.queue,
        "messages": messages,
        "seconds": round(outcome.seconds, 3),
        "messages_per_second": round(messages / outcome.seconds) if messages else 0,
    }
    for name, latency in (
        ("put", outcome.put), ("ack", outcome.ack), ("end_to_end", outcome.end_to_end),
    ):  # fmt: skip
        row[f"{name}_p50_ms"] = latency.percentile_ms(50)
        row[f"{name}_p99_ms"] = latency.percentile_ms(99)
    return row | {
        "daemon_cpu_us": round(cpu_ms * 1000 / messages, 2) if messages else None,
        "generator_cpu_us": (
            round(outcome.generator_cpu_s * 1e6 / messages, 2) if messages else None
        ),
        "size_bytes": work.size,
        "producers": work.producers or None,
        "inflight": work.inflight or None,
        "prefetch": work.prefetch or None,
        "one_a_frame": work.one_a_frame,
        "same": work.same,
        "priority": work.priority,
    }


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
    words["daemon"] = f"{row['daemon_cpu_us']} us of processor a message"
    words["generator"] = f"{row['generator_cpu_us']} us of processor a message"
    return words
