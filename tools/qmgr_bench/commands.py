"""qmctl bench: measures the message rate and the latencies of a queue manager."""

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from qmgr_protocol.record import PRIORITY_DEFAULT, PRIORITY_MAX
from qmgr_tools.cli import completion, option, output
from qmgr_tools.cli import humanize as humanize
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, refused, usage
from qmgr_tools.context import tls as tls_options
from qmgr_tools.context.file import KeptTls
from qmgr_tools.context.target import TLS

QUEUE = "qmctl.bench"
PRODUCERS_MAX = 500
OWN = "Each has its own connection"
BAR_WIDTH = 40
SPAN_MIN_MS = 2.0**-10  # start of the first span in ms; a later span starts at 1 ms

QueueName = Annotated[
    str,
    typer.Option(
        "--queue",
        metavar="QUEUE",
        help="Created if missing; otherwise it must be empty.",
        autocompletion=completion.local_queues,
    ),
]
Count = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, show_default=False, help="Stop after this number of messages."
    ),
]
Backlog = Annotated[
    int, typer.Option("--count", metavar="N", min=1, help="The number of messages to get.")
]
Seconds = Annotated[
    float,
    typer.Option(
        "--duration",
        metavar="TIME",
        parser=option.seconds,
        show_default="5s",
        help='Stop after this time, such as "5s".',
    ),
]
Size = Annotated[
    int,
    typer.Option(
        metavar="SIZE", parser=option.size, help="The size of each body.", show_default="256 B"
    ),
]
Producers = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=PRODUCERS_MAX, help=f"{OWN}; at most {PRODUCERS_MAX}."),
]
Inflight = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="The maximum number of unanswered puts of a producer."),
]
Consumers = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=PRODUCERS_MAX, help=f"{OWN}; at most {PRODUCERS_MAX}."),
]
Rate = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        min=0.1,
        show_default=False,
        help="Puts per second of all producers; each is timed from its due time.",
    ),
]
Prefetch = Annotated[
    int, typer.Option(metavar="N", min=1, help="The prefetch of a consumer, in messages.")
]
OneAFrame = Annotated[
    bool,
    typer.Option(
        "--one-a-frame/--coalesce", help="Whether puts that are sent together share a frame."
    ),
]
Unit = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        show_default=False,
        help="Put in units of work of this size; a put is answered by the commit of its unit.",
    ),
]
Same = Annotated[bool, typer.Option("--same/--vary", help="Whether all bodies are the same.")]
Priority = Annotated[
    int,
    typer.Option(
        metavar="0-9", min=0, max=PRIORITY_MAX, help=f"{PRIORITY_MAX} is delivered first."
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        help="For tls:HOST:PORT: the CAs that may sign its certificate.",
    ),
]

TIMES = {"put": "put to disk", "end_to_end": "put to get", "ack": "ack to disk"}
FACTS = (
    output.text("work"),
    output.count("messages_per_second", "messages per second"),
    output.count("messages"),
    output.count("seconds"),
    *(output.text(key, title) for key, title in TIMES.items()),
    output.text("daemon", "daemon"),
    output.text("generator", "this generator"),
)
JSON_KEYS = """\b
JSON: an object with
 mode, queue, messages, seconds, messages_per_second
 put, ack, end_to_end                    times from sending a put to its
  answer, from an ack to its answer, and from a put to its get (1 producer,
  1 consumer):
  p50_ms, p90_ms, p99_ms, p99_9_ms, max_ms
  buckets: a list of [from_ms, messages], each up to 1 % wide
 daemon_cpu_us, generator_cpu_us         processor time per message
 size_bytes, producers, inflight, unit, rate, consumers, prefetch,
 one_a_frame,
 same, priority
Values that were not measured are null."""


@command(JSON_KEYS)
def put(
    call: Call,
    queue: QueueName = QUEUE,
    count: Count = None,
    seconds: Seconds = 5.0,
    size: Size = 256,
    producers: Producers = 1,
    inflight: Inflight = 256,
    rate: Rate = None,
    unit: Unit = 0,
    one_a_frame: OneAFrame = False,
    same: Same = False,
    priority: Priority = PRIORITY_DEFAULT,
    ca_file: CaFile = None,
) -> None:
    """Measures puts. Each producer keeps its window full, or all producers share a rate.

    Examples:
      qmctl bench put --duration 10s --producers 16 --inflight 64
      qmctl bench put --rate 5000 --size 1KiB -o json
      qmctl bench put --unit 100 --inflight 1000
      qmctl bench put -c tls:nyc:7471 --ca-file ca.crt
    """
    _measure(
        call,
        mode="put",
        queue=queue,
        count=count,
        seconds=seconds,
        size=size,
        same=same,
        producers=producers,
        inflight=inflight,
        rate=rate,
        unit=unit,
        one_a_frame=one_a_frame,
        priority=priority,
        ca_file=ca_file,
    )


@command(JSON_KEYS)
def get(
    call: Call,
    queue: QueueName = QUEUE,
    count: Backlog = 100_000,
    size: Size = 256,
    consumers: Consumers = 1,
    prefetch: Prefetch = 256,
    same: Same = False,
    priority: Priority = PRIORITY_DEFAULT,
    ca_file: CaFile = None,
) -> None:
    """Measures gets. First puts a backlog, then gets and acknowledges all messages.

    Examples:
      qmctl bench get --count 200000
      qmctl bench get --count 200000 --consumers 4 -o json
    """
    _measure(
        call,
        mode="get",
        queue=queue,
        count=count,
        size=size,
        same=same,
        consumers=consumers,
        prefetch=prefetch,
        priority=priority,
        ca_file=ca_file,
    )


@command(JSON_KEYS)
def putget(
    call: Call,
    queue: QueueName = QUEUE,
    count: Count = None,
    seconds: Seconds = 5.0,
    size: Size = 256,
    producers: Producers = 1,
    inflight: Inflight = 256,
    rate: Rate = None,
    consumers: Consumers = 1,
    prefetch: Prefetch = 256,
    unit: Unit = 0,
    one_a_frame: OneAFrame = False,
    same: Same = False,
    priority: Priority = PRIORITY_DEFAULT,
    ca_file: CaFile = None,
) -> None:
    """Measures puts together with consumers that acknowledge each message.

    Examples:
      qmctl bench putget --duration 10s
      qmctl bench putget --rate 2000 --consumers 2 -o json
    """
    _measure(
        call,
        mode="putget",
        queue=queue,
        count=count,
        seconds=seconds,
        size=size,
        same=same,
        producers=producers,
        inflight=inflight,
        rate=rate,
        consumers=consumers,
        prefetch=prefetch,
        unit=unit,
        one_a_frame=one_a_frame,
        priority=priority,
        ca_file=ca_file,
    )


def _measure(call: Call, ca_file: Path | None, **given: Any) -> None:
    from qmgr_bench.measure import Work, measure  # The import takes 40 ms, too long for --help.

    doing = f"measure {given['mode']}"
    if ca_file is not None:
        if not call.address().startswith(TLS):
            why = f"the address {call.address()} does not use TLS"
            raise usage(f"cannot {doing}", why, "write tls: before the address")
        call = replace(call, tls=replace(call.target().tls or KeptTls(), ca_file=str(ca_file)))
    from qmgr_client.address import split  # It is not needed for --help.

    if len(split(call.address())) > 1:
        raise usage(f"cannot {doing}", "it measures one process", "give the active one's address")
    call.check(doing)
    found, login = call.target(), call.credentials(doing)
    address, tls = found.address, tls_options.arguments(found.tls).get("tls")
    if sys.stderr.isatty():
        output.note("measuring; press Ctrl-C to stop")
    with _failing(doing, address):
        row = measure(address, Work(**given), login, tls)
    if call.is_json:
        output.document(row)
    else:
        output.facts(FACTS, _in_words(row))
        for key, title in TIMES.items():
            if row[key] is not None:
                output.say("")
                output.say(f"{title}: time from, messages, share")
                for line in bars(row[key]["buckets"]):
                    output.say(line)


@contextmanager
def _failing(doing: str, address: str) -> Iterator[None]:
    from qmgr_bench.load import LoadFailed
    from qmgr_protocol.errors import RequestError

    try:
        yield
    except RequestError as error:
        raise refused(doing, error) from error
    except LoadFailed as error:
        raise Failure(Exit.FAILED, f"cannot {doing}", str(error), "see: qmctl status") from error
    except OSError as error:
        raise Failure(
            Exit.UNAVAILABLE,
            f"cannot {doing}",
            f"lost the connection to {address}: {error.strerror or error}",
            "check the daemon's log, then run the command again",
        ) from error


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of *row* as text for the terminal."""
    words = dict(row)
    windows = []
    for noun, window in (
        ("producer", f"{row['inflight']} in flight"),
        ("consumer", f"{row['prefetch']} ahead"),
    ):
        if number := row[f"{noun}s"]:
            windows.append(f"{humanize.counted(number, noun)} with {window}")
    words["work"] = f"{row['size_bytes']} B, " + ", ".join(windows)
    if row["unit"]:
        words["work"] += f", in units of {row['unit']:,}"
    if row["rate"]:
        words["work"] += f", {row['rate']:,g} puts per second"
    words["messages_per_second"] = f"{row['messages_per_second']:,}"
    words["messages"] = f"{row['messages']:,}"
    for name in TIMES:
        if (times := row[name]) is not None:
            words[name] = (
                ", ".join(
                    f"{key.removesuffix('_ms').replace('_', '.')} {times[key]:,.4g}"
                    for key in ("p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "max_ms")
                )
                + " ms"
            )
    for name in ("daemon", "generator"):
        if row[f"{name}_cpu_us"]:  # Times below the resolution of the system's clock are not shown.
            words[name] = f"{row[f'{name}_cpu_us']} us of CPU per message"
    return words


def bars(buckets: Sequence[tuple[float, int]]) -> Iterator[str]:
    """Yields a line for each span of time, from the shortest to the longest.

    Spans begin at about 1, 1.5, 2, 3, 4, 6, 8 ... microseconds.
    """
    counted: Counter[int] = Counter()
    for from_ms, messages in buckets:
        counted[_span(from_ms)] += messages
    most, total = max(counted.values()), sum(counted.values())
    for span in range(min(counted), max(counted) + 1):
        bar = "#" * -(-counted[span] * BAR_WIDTH // most)
        share = counted[span] / total
        yield f"{_start_ms(span):>9,.4g} ms {counted[span]:>12,} {share:>6.1%} {bar}".rstrip()


def _start_ms(span: int) -> float:
    return float(2.0 ** (span // 2) * (1.5 if span % 2 else 1)) * SPAN_MIN_MS


def _span(ms: float) -> int:
    """Returns the number of the span that contains *ms*."""
    power = int(math.log2(max(ms / SPAN_MIN_MS, 1)))
    return 2 * power + (ms >= _start_ms(2 * power + 1))
