"""Tests of a few starts from damaged stores, and tests that the trial detects bugs.

``python -m tests.poison.start --seeds 2000`` runs more starts.
"""

import pytest
from sortedcontainers import SortedDict

from qmgr_protocol.codec import pack
from qmgrd.core.context.aside import Aside
from qmgrd.core.jobs.due_work import DueWork
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.poison.damage import Damage
from tests.poison.filled import filled
from tests.poison.start import Fault, Trial, run

SEEDS = 40


def test_damaged_stores_start_and_serve() -> None:
    faults, ends = run(range(SEEDS))
    assert faults == 0
    assert ends["set aside"] > SEEDS // 10


def test_publication_without_a_topic_is_set_aside() -> None:
    """The fan-out of the publication, which has no topic, failed repeatedly (seed 20052)."""
    trial = Trial(0)
    trial.store.rows = SortedDict(filled())
    progress = rows.unseal(keys.FAN_OUT, trial.store.rows[keys.FAN_OUT])
    first, _, _ = keys.FAN_OUT_ROW.unpack(progress)
    key = keys.message(keys.PUBLICATIONS_ID, 0, keys.PRIORITY_TOP, first)
    publication = entries.decode(trial.store.rows[key])
    assert publication.target == "flights/JFK"
    trial.store.rows[key] = entries.encode(publication._replace(target=""))
    trial.damage = Damage("no topic", key)
    trial.run()


def test_store_of_the_trials_has_rows_of_every_kind() -> None:
    spaces = {value for name, value in vars(keys).items() if name.startswith("SPACE_")}
    assert {key[:1] for key in filled()} == spaces | {b"\0"}
    assert {keys.FAN_OUT, keys.HISTORY} < filled().keys()


def broken_due_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants a bug that one item of due work triggers repeatedly."""

    def fail(self: DueWork, queue: object, key: bytes) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(DueWork, "_due", fail)


def test_start_that_sets_nothing_aside_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_due_work(monkeypatch)
    Trial(0).run()
    with pytest.raises(Fault, match="the same work fails repeatedly"):
        Trial(0, sets_aside=False).run()


def test_start_that_a_row_prevents_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Aside, context: object, kind: str, key: bytes, why: str) -> None:
        raise RuntimeError(why)

    monkeypatch.setattr(Aside, "move", stop)
    trial = Trial(0)
    key = keys.SPACE_QUEUE + b"Q"
    trial.damage = Damage("kind is 7", key)
    trial.store.rows[key] = rows.seal(key, pack({"kind": 7}))
    with pytest.raises(Fault, match="start failed: RuntimeError"):
        trial.run()
