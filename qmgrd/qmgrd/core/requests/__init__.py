"""Requests: the table from each message to its handler, and the answers to operators.

* `operations.py` maps each kind of message to its handler. `rights.py` maps it to the right that it
  needs. A test checks that both tables are complete.
* Answers to operators, by subject: `queues.py` (also status and snapshots), `groups.py`,
  `topics.py`, `links.py`, `jobs.py`, `templates.py`, `history.py`, `aside.py`.
* `template_pass.py` applies a changed template to existing queues, in slices.
* `set_aside.py` sets work aside that failed twice, and retries or drops it.

A handler checks the request, lets another room do the work, and sends the answer. Long lists are
answered a page at a time.

Invariant: a handler that raises RequestError has written nothing. The broker sends the error.
"""
