"""Jobs: long-running work on queues, done in one slice per turn. Jobs continue after a restart.

* `job.py` defines a job: its states, its stored row and its description for operators. `jobs.py`
  runs all jobs in rotation, replies when they end and keeps ended jobs for an hour. `slice.py`
  reads the rows that a job processes in a turn.
* Operators start `purge.py`, `move.py` (with `retry.py` for dead letters that return to their
  queues) and `republish.py` (parked publications).
* The daemon starts the others. `drop.py` removes the rows of a deleted queue. `sweep.py` removes
  messages that did not survive a restart, `retention.py` idle producers, and `origin_eviction.py`
  unused origins. `retained.py` sends the retained publications to a new subscription.
* Groups: `group_end.py` removes a group that cannot be consumed. `group_watch.py` examines the
  groups of a queue. `group_refresh.py` updates the groups that a turn changed.
* `due_work.py` is not a job. It does the work that the schedule lists as due: it ends delays,
  expires messages and forgets UIDs.

Invariant: all work before a job's cursor is done. A slice and its new cursor are committed in one
transaction. Therefore, no work is repeated or skipped, even if the daemon stops between two slices.
"""
