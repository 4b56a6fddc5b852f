import pytest

from pyspark_qmgr.reports.registry import ALL, REPORTS, ReportUnknown, named


def test_reports_come_in_the_order_asked_for_each_once() -> None:
    assert [report.name for report in named(["hops", "depth", "hops"])] == ["hops", "depth"]


def test_all_are_all_and_what_was_named_comes_first() -> None:
    assert named([ALL]) == list(REPORTS.values())
    assert [report.name for report in named(["sizes", ALL])][:2] == ["sizes", "depth"]
    assert len(named(["sizes", ALL])) == len(REPORTS)


@pytest.mark.parametrize(
    ("name", "hint"), [("dept", "did you mean depth?"), ("x", "the reports are ")]
)
def test_name_of_no_report_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ReportUnknown, match=f"^'{name}' is not a valid report; {hint}"):
        named(["depth", name])
