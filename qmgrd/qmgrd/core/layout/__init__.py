"""The layout of the store: the bytes of every key and row, and the interface of a store.

* `keys.py` draws the whole key space; read it first. `kv.py` is the interface of a store.
* `entry.py` is a message as stored, `index.py` the rows that lead to a message, `schedule.py` the
  rows of what is due. `row.py` seals small rows with a checksum.
* `counters.py` is what a queue counts, `bounds.py` the attributes in force for a queue.
* `clock.py` is the store's clock, `stamp.py` gives the timestamps of UIDs, `ids.py` gives numbers
  that never repeat, `value_checks.py` checks types and bounds of values read from rows.

Invariant: no other room knows an offset in a key or a row. A row has a checksum, or is
checked against the message that it leads to. So damage is reported and not used as data.
"""
