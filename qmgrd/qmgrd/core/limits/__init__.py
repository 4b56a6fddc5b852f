"""Limits on the time, rows and bytes of a turn, and on the room in the store.

* `budget.py` is the time of a turn, measured by a clock that the shell passes. `timers.py` has the
  calls that the core makes at a time of the store clock.
* `room.py` computes the room in the store, and reserves it for operations.
* `unread_replies.py` holds connections whose peers have too many unread answers. Requests
  of held connections that only read wait, or are dropped.
* `work.py` names the daemon's own work, so work that keeps failing can be set aside.

Invariant: every resource of the daemon that a peer can use has a limit. Each kind of work does at
least one slice per turn, so no kind waits forever.
"""
