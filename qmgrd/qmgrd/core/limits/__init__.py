"""Limits: how much time, rows and bytes a turn may use, and how much room the store has.

* `budget.py` is the time of a turn, by a clock that the shell hands in. `timers.py` has the calls
  that the core makes at a time of the store's clock.
* `room.py` says how much room the store has, and for which operations it is reserved.
* `unread_replies.py` holds connections whose peers have too much unread. `reads.py` lists the
  requests that only read: they wait, or are dropped, in such cases.
* `work.py` names the daemon's own work, so that work that keeps failing can be set aside.
* `page.py` cuts pages from ordered lists, `sorted_map.py` keeps keys in order, and `amount.py`
  writes a number with its noun.

Invariant: everything that a peer can make the daemon keep or do has a limit. Each kind of work does
at least one slice per turn, so that no kind waits for ever.
"""
