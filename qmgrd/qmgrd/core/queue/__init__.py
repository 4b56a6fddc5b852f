"""One queue: its messages, leases, order, duplicates and journal.

* `queue.py` is the state of a queue. `positions.py` says how far it is handed out, `waiting.py`
  which consumers wait, `uncommitted.py` and `held_puts.py` what open units of work put.
* `put.py` checks, stamps and appends a batch, `take.py` leases the next messages, `settle.py`
  removes messages or returns them. A busy daemon spends most of its time in these three.
* Rows: `lane.py` writes a message and the rows that lead to it, `notes.py` the note of a message
  that failed. `dedup.py` is the table of origins that detects duplicates.
* Leases: `lease.py` says who holds what, `lease_number.py` makes the numbers that prove a delivery.
* Order and choice: `order.py` merges the lanes in physical order, `browse.py` reads without
  leasing. `selection.py` says what a consumer selects, `seek.py` finds it, `facts.py` gives
  selectors the facts of a message.
* Others: `breaker.py` pauses delivery if nearly all messages fail, `references.py` counts the
  references to publications, `journal.py` and `journal_rows.py` keep the history, `totals.py` sums
  over all queues, `put_errors.py` has the errors of puts.
* Groups have their own room, `group/`.

Invariant: a message is in one lane of its queue, under its priority and arrival number, and every
row that leads to it is written and deleted together with it. Leases are in memory only: a delivery
writes nothing.
"""
