"""The figures of one run, whoever was driven and whatever with."""

from dataclasses import dataclass

from qmgr_bench.load import LoadFailed, Outcome


@dataclass(frozen=True, slots=True)
class Pulse:
    """What one run found. Times are those of puts, or of acks where nothing was put."""

    messages: int
    messages_per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    server_cpu_us: float  # a message
    generator_cpu_us: float
    generator_share: float  # of one core: near 1 it is the generator that was measured
    is_cut: bool

    @classmethod
    def of(cls, outcome: Outcome, cpu_s: float) -> "Pulse":
        """Returns the figures of *outcome*, for which the server needed *cpu_s*.

        Raises:
            LoadFailed: nothing was done.
        """
        messages = outcome.messages
        if not messages:
            raise LoadFailed("nothing was done in the time there was: give more SECONDS")
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
