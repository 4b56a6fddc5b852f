"""Requests: the table from each message to its handler, and the replies to operators.

* `operations.py` maps each kind of message to its handler. `rights.py` maps each kind to the right
  that it requires. A test checks that both tables are complete. `services.py` lists the parts of
  the queue manager that the handlers use. `reads.py` lists the requests that only read.
* Replies to operators, by subject: `queues.py` (also status and snapshots), `groups.py`,
  `topics.py`, `links.py`, `jobs.py`, `templates.py`, `history.py`, `aside.py`.
* `template_pass.py` applies a changed template to existing queues, in slices.
* `set_aside.py` sets aside work that failed twice, and retries or drops it.

A handler checks the request, calls other subpackages for the work, and sends the reply. Long lists
are returned one page at a time.

Invariant: a handler that raises RequestError has written nothing. The broker sends the error.
"""
