"""Jobs: long work on queues, done one slice per turn, that survives a restart.

* `job.py` says what a job is: its states, its stored row, what operators see. `jobs.py` runs all
  jobs in rotation, answers at their ends and keeps the ended ones for an hour. `slice.py` reads the
  rows that a job works on in a turn.
* Operators start `purge.py`, `move.py` (with `retry.py` for dead letters that return to their
  queues) and `republish.py` (parked publications).
* The daemon starts the others: `drop.py` removes what a deleted queue left, `sweep.py` messages
  that did not survive a restart, `retention.py` idle producers, `origin_eviction.py` unused
  origins. `retained.py` gives a new subscription its retained publications.
* Groups: `group_end.py` removes a group that is not consumed, `group_watch.py` looks at the groups
  of a queue, `group_refresh.py` updates the groups that a turn changed.
* `due_work.py` is not a job. It does what the schedule has due: delays, expiry, forgotten UIDs.

Invariant: everything before a job's cursor is done. A slice commits in one transaction with its new
cursor, so nothing is done twice or left out, whenever the daemon stops.
"""
