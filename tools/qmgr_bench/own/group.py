"""GROUP: the cost of groups at different depths, and compared with ungrouped messages."""

from dataclasses import dataclass

from qmgr_bench.own.group_rates import RateOf, group_rates
from qmgr_bench.own.group_steps import StepsAtDepth, steps
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least, at_most

FLAT = 1.2
RATE_LEAST = 0.7


@dataclass(frozen=True, slots=True)
class Groups:
    """The results of row GROUP.

    Growth is the processor time at the greatest depth, relative to the smallest in the same turn.
    """

    series: list[StepsAtDepth]
    next_growth: float
    pinned_growth: float
    whole_growth: float
    search_growth: float  # growth of the search by selector, which groups avoid
    rates: list[RateOf]

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        low, high = self.series[0].depth, self.series[-1].depth
        what = f"CPU time among {high:,} messages, relative to {low:,}"
        growths = [
            ("next member by a reader", self.next_growth),
            ("next member by a pinned consumer", self.pinned_growth),
            ("first member of a complete group", self.whole_growth),
        ]
        return [
            *(at_most(f"{name}, {what}", value, FLAT) for name, value in growths),
            *(
                at_least(
                    f"rate of {rate.work}, grouped, relative to ungrouped", rate.ratio, RATE_LEAST
                )
                for rate in self.rates
            ),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the processor times as bars."""
        return "CPU time in us of a step, medians", [
            bar
            for point in self.series
            for bar in (
                (f"next member, depth {point.depth:,}", point.next_cpu_us, True),
                (f"pinned, depth {point.depth:,}", point.pinned_cpu_us, True),
                (f"complete, depth {point.depth:,}", point.whole_cpu_us, True),
            )
        ]


def group(setting: Setting) -> Groups:
    """Times the steps at each depth, then puts and gets with and without groups."""
    found = steps(setting)
    return Groups(*found, group_rates(setting))
