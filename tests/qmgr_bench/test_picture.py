from xml.etree import ElementTree

from qmgr_bench.picture import NAMES, OURS, VALUES, WIDTH, picture

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_their_values_and_stay_inside() -> None:
    drawn = ElementTree.fromstring(picture("a < b", "msg/s", [("x", 50, True), ("y", 100, False)]))
    _, ours, theirs = drawn.findall(f"{SVG}rect")
    assert ours.get("fill") == OURS
    assert theirs.get("fill") != OURS
    assert (
        float(ours.get("width", 0)) * 2 == float(theirs.get("width", 0)) == WIDTH - NAMES - VALUES
    )
    assert "a < b" in [text.text for text in drawn.iter(f"{SVG}text")]


def test_nothing_measured_is_no_failure() -> None:
    ElementTree.fromstring(picture("t", "u", [("x", 0, True)]))
