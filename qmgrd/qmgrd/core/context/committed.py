"""Builds the runs in answers to producers:

UIDs of messages, and numbers of matching subscriptions.
"""

from collections.abc import Sequence


def add_stamps(runs: list[list[int]], first: int, timestamp: int, count: int) -> None:
    """Adds a run of *count* records with consecutive ids and timestamps to *runs*."""
    if runs:
        run = runs[-1]
        if run[0] + run[2] == first and run[1] + run[2] == timestamp:
            run[2] += count
            return
    runs.append([first, timestamp, count])


def add_matches(runs: list[list[int]], ids: Sequence[int], subscriptions: int) -> None:
    """Adds the number of matching *subscriptions* of each publication in *ids* to *runs*."""
    for seq_id in ids:
        if runs and runs[-1][0] + runs[-1][1] == seq_id and runs[-1][2] == subscriptions:
            runs[-1][1] += 1
        else:
            runs.append([seq_id, 1, subscriptions])
