"""TOPIC: publications to many subscribers: rates, size on disk, matching, sending again."""

from dataclasses import dataclass

from qmgr_bench.own.fan_out import EACH, FanOut, fan_out
from qmgr_bench.own.matching import Matching, matching
from qmgr_bench.own.references import References, references
from qmgr_bench.own.republishing import Resent, republishing
from qmgr_bench.rows import OURS
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most

REFERENCE_BYTES = 100
MATCHING_US = 50


@dataclass(frozen=True, slots=True)
class Topic:
    """TOPIC."""

    fan_out: list[FanOut]
    references: list[References]
    matching: list[Matching]
    resent: list[Resent]  # republished, and published again

    def targets(self) -> list[Target]:
        """The targets of the row."""
        once, again = self.resent
        healthy = once.subscribers - once.failing
        what = f"{once.failing} of {once.subscribers:,} failed"
        return [
            at_most(
                "a publication for one more subscription, keys, values and LMDB's nodes",
                self.references[0].bytes,
                REFERENCE_BYTES,
                "B",
            ),
            at_most(
                f"a new topic among {self.matching[0].subscriptions:,} filters, CPU",
                self.matching[0].us,
                MATCHING_US,
                "us",
            ),
            at_most(f"{what}, republished: copies", once.copies, once.failing),
            at_most(
                f"{what}, republished: duplicates at the {healthy:,} others (published "
                f"again: {again.duplicates:,})",
                once.duplicates,
                0,
            ),
            at_most("subscribers that never had it", once.lacking, 0),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns deliveries a second as bars."""
        return "deliveries a second, each acknowledged, medians", [
            (
                f"{one.server}, {one.subscriptions:,} subscriptions",
                one.deliveries_per_s,
                one.server == OURS,
            )
            for one in self.fan_out
            if one.connections == EACH
        ]


def topic(setting: Setting) -> Topic:
    """Measures all four."""
    return Topic(
        fan_out(setting), [references(setting)], [matching(setting)], republishing(setting)
    )
