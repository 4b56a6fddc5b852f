"""The figures of one run, of any server and any driver."""

from dataclasses import dataclass

from qmgr_bench.load import LoadFailed, Outcome


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run. The times are those of puts, or of acks if the run has no puts."""

    messages: int
    messages_per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    server_cpu_us: float  # processor time of the server per message
    generator_cpu_us: float
    generator_share: float  # used fraction of one core; near 1, the generator is the bottleneck
    is_cut: bool

    @classmethod
    def of(cls, outcome: Outcome, cpu_s: float) -> "Figures":
        """Returns the figures of *outcome*, for which the server used *cpu_s* of processor time.

        Raises:
            LoadFailed: The run has no messages.
        """
        messages = outcome.messages
        if not messages:
            raise LoadFailed("no message was finished in the available time: increase SECONDS")
        latency = outcome.put if outcome.put.count else outcome.ack
        p50_ms, p99_ms, p999_ms = (latency.percentile_ms(x) or 0.0 for x in (50, 99, 99.9))
        return cls(
            messages,
            round(messages / outcome.seconds),
            p50_ms,
            p99_ms,
            p999_ms,
            round(cpu_s * 1e6 / messages, 2),
            round(outcome.generator_cpu_s * 1e6 / messages, 2),
            round(outcome.generator_cpu_s / outcome.seconds, 2),
            outcome.is_cut,
        )
