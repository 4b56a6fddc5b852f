"""Groups of messages on one queue: stored counts and order, and the readers that hold groups.

* Stored: `row.py` is the row of a group, `index.py` the rows that find members by number,
  `chain.py` the groups with an available due member, in order. `groups.py` keeps the three in step.
  `restore.py` rebuilds a row that makes no sense from the members.
* In memory: `held_groups.py` records which reader holds which group, `group_heap.py` the order of
  the groups that one reader holds.
* Puts: `admission.py` decides which members may be put.
* Deliveries: `take.py` leases messages in group order, `follow.py` the members of a group that a
  reader holds, `run.py` runs of plain members in tight loops, `select.py` what a reader selects.
* Operators: `browse.py` reads in logical order, `intervention_errors.py` has the errors of
  interventions.

Invariant: a group has at most one reader at a time. Its reader gets the members in the order of
their numbers, each after those before it.
"""
