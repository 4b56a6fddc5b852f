"""One measurement of qmctl bench: queue, connections, run and figures."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from qmgr_bench.load import NS_PER_MS, Latency, Load, Outcome, Plan, Sender
from qmgr_bench.qmgr import QmgrReceiver, QmgrSender, Wire, bodies, records
from qmgr_bench.unit_sender import UnitSender
from qmgr_client.client_name import client_name
from qmgr_client.credentials import Login
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.tls import TlsOptions
from qmgr_tools.cli import humanize as humanize
from qmgr_tools.cli.failure import Exit, Failure, usage

NAME = client_name("qmctl.bench")
FOREVER_S = float("inf")
Dial: TypeAlias = Callable[[str], Wire]  # opens a connection as the client of this name
PRELOAD_INFLIGHT = 1_024
PRELOAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """The work to measure. Without producers, ``count`` messages are put before the measurement."""

    mode: str
    queue: str
    size: int
    priority: int
    same: bool
    count: int | None = None
    seconds: float = FOREVER_S
    producers: int = 0
    inflight: int = 0
    one_a_frame: bool = False
    consumers: int = 0
    prefetch: int = 0
    rate: float | None = None
    unit: int = 0  # number of messages per unit of work; 0: no units

    @property
    def window(self) -> int:
        """Returns the maximum number of unanswered puts of a producer, in whole units."""
        return self.inflight // self.unit * self.unit if self.unit else self.inflight


def measure(
    address: str, work: Work, login: Login | None = None, tls: TlsOptions | None = None
) -> dict[str, Any]:
    """Does *work* with the queue manager at *address* and returns the figures.

    Each connection logs in with *login*, if any, and checks the certificate as *tls* says.

    Raises:
        OSError: The connection to *address* failed.
        RequestError, LoadFailed: The queue manager refused a request or did not finish the work.
        Failure: The queue has other messages, or the work exceeds a window.
    """
    dial = partial(Wire, address, login=login, tls=tls)
    with _empty_queue(dial, work), ExitStack() as sockets:
        pool = records(bodies(work.size, vary=not work.same), work.priority)
        if not work.producers:
            _preload(dial, work, pool)

        def wire(role: str) -> Wire:
            return sockets.enter_context(dial(f"{NAME}.{role}"))

        senders = [_sender(wire(f"producer.{i}"), work, pool) for i in range(work.producers)]
        receivers = [
            QmgrReceiver(wire(f"consumer.{i}"), work.queue, work.prefetch)
            for i in range(work.consumers)
        ]
        before_ms = _cpu_ms(dial)
        plan = Plan(work.window, work.seconds, work.count or 0, work.rate or 0)
        outcome = Load(plan, senders, *receivers).run()
        return _measured(work, outcome, _cpu_ms(dial) - before_ms)


def _sender(wire: Wire, work: Work, pool: list[bytes]) -> Sender:
    if work.unit:
        return UnitSender(wire, work.queue, pool, work.unit)
    return QmgrSender(wire, work.queue, pool, coalesce=not work.one_a_frame)


@contextmanager
def _empty_queue(dial: Dial, work: Work) -> Iterator[None]:
    """Provides an empty queue, and restores its previous state afterwards.

    Raises:
        Failure: REFUSED if the queue has messages, USAGE if the windows are too large.
    """
    with dial(NAME) as control:
        _check_unit(work)
        _check_window(control.welcome, work)
        try:
            row, existed = control.ask(m.QueueShow, work.queue), True
            _check_queue(work.queue, row)
        except RequestError as error:
            if error.code != ErrorCode.QUEUE_UNKNOWN:
                raise
            existed = False
            control.ask(m.QueueCreate, work.queue)
    try:
        yield
    finally:
        # The daemon may have closed the first connection, which was silent during the measurement.
        with dial(NAME) as control:
            if existed:
                control.ask(m.QueuePurge, work.queue)
            else:
                control.ask(m.QueueDelete, work.queue, True)


def _check_queue(queue: str, row: dict[str, Any]) -> None:
    if row["kind"] != "local":
        why = f"it is a {row['kind']} queue"
    elif row["depth"]:
        why = f"it holds {humanize.messages(row['depth'])}"
    else:
        return
    hint = "choose a new name with --queue: the queue is created, and deleted afterwards"
    raise Failure(Exit.REFUSED, f"cannot measure with queue {queue}", why, hint)


def _check_unit(work: Work) -> None:
    if not work.unit:
        return
    if work.rate:
        why = "a rate sends puts one by one, so units are not possible"
        raise usage("--unit and --rate exclude each other", why, "omit one of them")
    if work.unit > work.inflight:
        why = f"--inflight {work.inflight} is smaller than the unit"
        raise usage(f"--unit {work.unit} is too large", why, f"use --inflight {work.unit} or more")


def _check_window(welcome: m.Welcome, work: Work) -> None:
    limit = welcome.put_window_messages
    if work.inflight > limit:
        why = f"the queue manager grants a window of {limit} puts"
        raise usage(f"--inflight {work.inflight} is too large", why, f"use at most {limit}")
    limit = welcome.put_window_bytes
    if work.inflight * work.size > limit:
        why = f"the product exceeds the window of {limit} bytes that the queue manager grants"
        raise usage(
            f"--inflight {work.inflight} with --size {work.size} is too large",
            why,
            "reduce one of them",
        )


def _preload(dial: Dial, work: Work, pool: list[bytes]) -> None:
    window = max(min(PRELOAD_INFLIGHT, PRELOAD_BYTES // max(work.size, 1)), 1)
    with dial(f"{NAME}.preload") as wire:
        sender = QmgrSender(wire, work.queue, pool, coalesce=True)
        Load(Plan(window, FOREVER_S, work.count or 0), [sender]).run()


def _cpu_ms(dial: Dial) -> int:
    with dial(NAME) as control:
        return control.cpu_ms()


def _measured(work: Work, outcome: Outcome, cpu_ms: int) -> dict[str, Any]:
    messages = outcome.messages
    row: dict[str, Any] = {
        "mode": work.mode,
        "queue": work.queue,
        "messages": messages,
        "seconds": round(outcome.seconds, 3),
        "messages_per_second": round(messages / outcome.seconds) if messages else 0,
    }
    for name, latency in (
        ("put", outcome.put),
        ("ack", outcome.ack),
        ("end_to_end", outcome.end_to_end),
    ):
        row[name] = _times(latency)
    return row | {
        "daemon_cpu_us": round(cpu_ms * 1000 / messages, 2) if messages else None,
        "generator_cpu_us": (
            round(outcome.generator_cpu_s * 1e6 / messages, 2) if messages else None
        ),
        "size_bytes": work.size,
        "producers": work.producers or None,
        "inflight": work.window or None,
        "unit": work.unit or None,
        "rate": work.rate,
        "consumers": work.consumers or None,
        "prefetch": work.prefetch or None,
        "one_a_frame": work.one_a_frame,
        "same": work.same,
        "priority": work.priority,
    }


def _times(latency: Latency) -> dict[str, Any] | None:
    if not latency.count:
        return None
    percents = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99, "p99_9_ms": 99.9}
    return {
        **{key: latency.percentile_ms(percent) for key, percent in percents.items()},
        "max_ms": latency.max_ms(),
        "buckets": [[ns / NS_PER_MS, count] for ns, count in sorted(latency.buckets.items())],
    }
