"""TOPIC: publications to many subscribers: rates, size on disk, matching and republishing."""

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
    """The results of row TOPIC."""

    fan_out: list[FanOut]
    references: list[References]
    matching: list[Matching]
    resent: list[Resent]  # results for republishing, and for publishing again

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        once, again = self.resent
        healthy = once.subscribers - once.failing
        what = f"{once.failing} of {once.subscribers:,} failed"
        return [
            at_most(
                "space of a publication for one more subscription, with LMDB's overhead",
                self.references[0].bytes,
                REFERENCE_BYTES,
                "B",
            ),
            at_most(
                f"CPU time to match a new topic with {self.matching[0].subscriptions:,} filters",
                self.matching[0].us,
                MATCHING_US,
                "us",
            ),
            at_most(f"{what}, republished: copies", once.copies, once.failing),
            at_most(
                f"{what}, republished: duplicates for the {healthy:,} others (published "
                f"again: {again.duplicates:,})",
                once.duplicates,
                0,
            ),
            at_most("subscribers that never received the publication", once.lacking, 0),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the deliveries per second as bars."""
        return "deliveries per second, each acknowledged, medians", [
            (
                f"{one.server}, {one.subscriptions:,} subscriptions",
                one.deliveries_per_s,
                one.server == OURS,
            )
            for one in self.fan_out
            if one.connections == EACH
        ]


def topic(setting: Setting) -> Topic:
    """Measures fan-out, references, matching and republishing."""
    return Topic(
        fan_out(setting), [references(setting)], [matching(setting)], republishing(setting)
    )
