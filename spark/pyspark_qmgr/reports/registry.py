"""All reports by name, in the order in which they are shown."""

from collections.abc import Iterable
from difflib import get_close_matches

from pyspark_qmgr.reports.anomalies import ANOMALIES
from pyspark_qmgr.reports.backlog import BACKLOG
from pyspark_qmgr.reports.dead import DEAD
from pyspark_qmgr.reports.depth import DEPTH
from pyspark_qmgr.reports.duplicates import DUPLICATES
from pyspark_qmgr.reports.hops import HOPS
from pyspark_qmgr.reports.latency import LATENCY
from pyspark_qmgr.reports.rates import RATES
from pyspark_qmgr.reports.redelivery import REDELIVERY
from pyspark_qmgr.reports.report import Report
from pyspark_qmgr.reports.sizes import SIZES
from pyspark_qmgr.reports.skew import SKEW

ALL = "all"
REPORTS: dict[str, Report] = {
    report.name: report
    for report in (
        DEPTH,
        RATES,
        LATENCY,
        HOPS,
        REDELIVERY,
        DEAD,
        SKEW,
        DUPLICATES,
        BACKLOG,
        SIZES,
        ANOMALIES,
    )
}


class ReportUnknown(ValueError):
    """A name is not the name of a report."""


def named(names: Iterable[str]) -> list[Report]:
    """Returns the reports *names* without duplicates. `all` means every report.

    Raises:
        ReportUnknown: A name is unknown. The text suggests a known name.
    """
    asked = list(dict.fromkeys(names))
    if ALL in asked:
        asked += REPORTS
    for name in asked:
        if name != ALL and name not in REPORTS:
            near = get_close_matches(name, REPORTS, 1)
            hint = f"did you mean {near[0]}?" if near else f"the reports are {', '.join(REPORTS)}"
            raise ReportUnknown(f"{name[:80]!r} is not a valid report; {hint}")
    return [REPORTS[name] for name in dict.fromkeys(asked) if name != ALL]
