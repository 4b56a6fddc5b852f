"""Limits on the time, rows and bytes of a turn, and on the space in the store.

* `budget.py` limits the time of a turn, measured by a clock that the shell passes. `timers.py`
  makes calls when the store clock reaches a given time.
* `open_selectors.py` limits the length of all selectors together, and of those of one user.
* `room.py` computes the room in the store, and reserves it for operations.
* `put_rates.py` delays the puts of users above the rates of their limits.
* `unread_replies.py` holds connections whose peers have too many unread answers. Requests that only
  read wait while their connection is held, and are dropped if it closes.
* `user_unread.py` limits the unread answers of all connections of one user.
* `work.py` names the daemon's own work, so that work that keeps failing can be set aside.

Invariant: every resource of the daemon that a peer can use has a limit. Each kind of work gets at
least one slice per turn, so no kind waits forever.
"""
