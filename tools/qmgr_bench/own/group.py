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
    """GROUP. Growth is of processor time, at the greatest depth to the least in the same turn."""

    series: list[StepsAtDepth]
    next_growth: float
    pinned_growth: float
    whole_growth: float
    search_growth: float  # of the selector search that groups avoid
    rates: list[RateOf]

    def targets(self) -> list[Target]:
        """The targets of the row."""
        low, high = self.series[0].depth, self.series[-1].depth
        what = f"beside {high:,} messages, to that beside {low:,}, CPU"
        growths = [
            ("the next member, by a reader", self.next_growth),
            ("the next member, pinned", self.pinned_growth),
            ("a group of which all is there", self.whole_growth),
        ]
        return [
            *(at_most(f"{name}, {what}", value, FLAT) for name, value in growths),
            *(
                at_least(f"{rate.work}, grouped, of those of no group", rate.ratio, RATE_LEAST)
                for rate in self.rates
            ),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns processor times as bars."""
        return "us of processor of a step, medians", [
            bar
            for point in self.series
            for bar in (
                (f"next member, depth {point.depth:,}", point.next_cpu_us, True),
                (f"pinned, depth {point.depth:,}", point.pinned_cpu_us, True),
                (f"all there, depth {point.depth:,}", point.whole_cpu_us, True),
            )
        ]


def group(setting: Setting) -> Groups:
    """Times steps at each depth, then puts and consumes, grouped and not."""
    found = steps(setting)
    return Groups(*found, group_rates(setting))
