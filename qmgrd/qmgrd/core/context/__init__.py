"""The state that all rooms share: the open turn, and what is known of connections and peers.

* `context.py` is the open turn: its transaction, time, limits, timers, queues to look after, and
  the outcome that is sent after the commit.
* `producer.py` is a producer with its window of numbered puts, `committed.py` the runs in the
  answer to a producer.
* `peers.py` has the queue managers that links may come from, and their store ids.
* `aside.py` has what was set aside: rows that make no sense, and work that failed twice.
* `put_records.py` is the entrance to a queue for all puts, `eviction.py` makes room for them on a
  full queue by evicting its oldest messages.

Invariant: code between the begin and the end of a turn writes only to the turn's transaction. What
it wants to send it adds to the outcome, which leaves after the commit.
"""
