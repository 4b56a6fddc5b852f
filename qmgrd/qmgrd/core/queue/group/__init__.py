"""Groups of messages on one queue: their stored state and order, and the readers that hold groups.

* Stored: `row.py` is the row of a group. `index.py` has the rows that find members by number.
  `chain.py` lists the groups with an available due member, in order. `groups.py` keeps these three
  consistent. `restore.py` rebuilds an invalid row from the members.
* In memory: `held_groups.py` records the reader of each group. `group_heap.py` keeps the order of
  the groups that one reader holds.
* Puts: `admission.py` decides whether a member may be put.
* Deliveries: `take.py` leases messages in group order. `follow.py` leases the members of a held
  group. `run.py` leases runs of plain members in tight loops. `select.py` checks the selection of a
  reader.
* Operators: `browse.py` reads in logical order. `intervention_errors.py` has the errors of
  interventions.

Invariant: a group has at most one reader at a time. The reader receives the members in the order of
their numbers.
"""
